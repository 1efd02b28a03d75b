"""Trains a stage in a container of the Docker engine, next to the same stage without a container."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from perf.cuda.bench import Bench
from perf.cuda.recipes import RecipeRun, run_recipe, write_recipe

_STAGE = "sft"


def report_container(bench: Bench) -> None:
    head = ["image", "ended", "step, s", "without a container", "peak GiB", "losses", "weights"]
    note = (
        "A stage with `container`, and the same stage without it: the losses and the trained weights are"
        " compared. On a GPU host the container needs the card, or its stage fails."
    )
    table = bench.report.table("A step in a container", head, note)
    bench.attempt(table, bench.image, 20, lambda: _container_row(bench))


def _container_row(bench: Bench) -> list[Any]:
    reference = find_image(bench.image)
    if reference is None:
        return ["not run: no Docker engine was found"]
    if not reference:
        return ["not run: the engine does not have the image; see `--image`"]
    inside = _run(bench, "inside", f", container: {{image: {reference!r}}}")
    outside = _run(bench, "outside", "")
    products = inside.product(_STAGE), outside.product(_STAGE)
    for run, product in zip((inside, outside), products, strict=True):
        if product is None:
            return [f"no: {run.failure(_STAGE)}"]
    contained, plain = (product.digests for product in products if product is not None)
    losses = inside.metrics(_STAGE, "loss"), outside.metrics(_STAGE, "loss")
    return [
        True,
        _last(inside.metrics(_STAGE, "cost/step_seconds")),
        _last(outside.metrics(_STAGE, "cost/step_seconds")),
        round(max(inside.metrics(_STAGE, "cost/memory_mb"), default=0.0) / 1024, 2),
        "identical" if losses[0] == losses[1] else "differ",
        "identical" if contained == plain else "differ",
    ]


def _last(values: Sequence[float]) -> float | None:
    return values[-1] if values else None


def find_image(name: str) -> str | None:
    """The image as NAME@DIGEST: itself if it has a digest, else by the id of the local image. Empty if the
    engine does not have it, None without an engine."""
    import docker
    from docker.errors import DockerException, ImageNotFound

    try:
        with closing(docker.from_env(timeout=60)) as engine:
            engine.ping()
            if "@" in name:
                return name
            return f"{name.rpartition(':')[0] or name}@{engine.api.inspect_image(name)['Id']}"
    except ImageNotFound:
        return ""
    except DockerException:
        return None


def _run(bench: Bench, kind: str, container: str) -> RecipeRun:
    scale, steps = bench.scale, bench.scale.steps
    params = f"batch_size: 27, micro_batch_size: 27, max_length: 64, max_steps: {steps}"
    stage = (
        f"train: sft, model: narrow, data: sums, params: {{{params}, save_steps: {steps},"
        f" learning_rate: {scale.learning_rate}}}{container}"
    )
    folder: Path = bench.new_folder(f"container/{kind}")
    write_recipe(folder, scale, {_STAGE: stage}, models={"narrow": bench.model("narrow")})
    return run_recipe(folder, folder / "home", bench.left() / 2)
