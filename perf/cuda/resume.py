"""Kills stages on the card and resumes them, next to two undisturbed runs of the same recipe.

If the undisturbed runs differ from each other, the method computes differently every time, and no resume
can be exact. The second table then shows with plain TRL what makes two runs equal: another attention
kernel, or torch's deterministic algorithms.
"""

import contextlib
import json
import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from perf.cuda import plain_trl
from perf.cuda.bench import Bench
from perf.cuda.forked import preload
from perf.cuda.recipes import (
    RecipeRun,
    compile_recipe,
    out_of_time,
    recipe_command,
    run_recipe,
    start_recipe,
    write_recipe,
)

from posttrain.runtime.process_tree import kill_tree
from posttrain.spec.plan import Plan, step_to_json

_SAVE_STEPS = 4
_POLL_SECONDS = 0.002
# Arguments of the trainer under which two runs of a script are compared.
_VARIATIONS: Mapping[str, Mapping[str, Any]] = {
    "as in the stage": {},
    "eager attention": {"attn_implementation": "eager"},
    "deterministic algorithms": {"full_determinism": True},
    "eager attention, deterministic algorithms": {
        "attn_implementation": "eager",
        "full_determinism": True,
    },
}


def run(bench: Bench) -> None:
    preload()
    folder = write_recipe(
        bench.new_folder("resume"), bench.scale, stages(bench), models={"base": bench.model("narrow")}
    )
    plan = compile_recipe(folder)
    train_start(folder, [folder / name for name in ("first", "second", "killed")], bench.left() / 4)
    first = run_recipe(folder, folder / "first", bench.left() / 3)
    second = run_recipe(folder, folder / "second", bench.left() / 3)
    killed = run_with_kills(folder, folder / "killed", set(bench.scale.killed_methods), bench.left() * 0.6)
    head = [
        *("stage", "killed after step", "resumed at step", "undisturbed runs", "resumed run"),
        *("first other loss: undisturbed", "resumed", "other files"),
    ]
    note = "All files of two products are compared, bit by bit."
    table = bench.report.table("Killed and resumed", head, note)
    differing: list[str] = []
    for stage in bench.scale.killed_methods:
        bench.attempt(
            table,
            stage,
            0,
            partial(resume_row, first, second, killed[0], killed[1].get(stage), stage, differing),
        )
    _report_causes(bench, plan, first, differing or [bench.scale.killed_methods[0]])


def train_start(folder: Path, homes: Sequence[Path], seconds: float) -> None:
    """Train the first SFT once for all homes: if it differed, every later stage would differ."""
    run_recipe(folder, homes[0], seconds, "--only", "start")
    for home in homes[1:]:
        shutil.copytree(homes[0], home, symlinks=True)


def stages(bench: Bench) -> dict[str, str]:
    scale = bench.scale
    rate, steps = scale.learning_rate, _SAVE_STEPS + scale.steps_after_kill
    params = f"max_steps: {steps}, save_steps: {_SAVE_STEPS}, learning_rate: {rate / 5}"
    rows = f"params: {{batch_size: 27, max_length: 64, {params}}}"
    rollouts = "reward: solution, placement: {rollouts: {engine: transformers}}"
    completions = f"max_completion_length: 6, {params}}}"
    text = {
        "sft": f"train: sft, model: start, data: sums, {rows}",
        "sft_lora": f"train: sft, model: start, data: sums, adapter: {{r: 16, lora_dropout: 0.1}}, {rows}",
        "dpo": f"train: dpo, model: start, data: sums, {rows}",
        "reward_model": f"train: reward_model, model: start, data: sums, {rows}",
        "grpo": (
            f"train: grpo, model: start, data: sums, {rollouts}, params: {{num_prompts: 9,"
            f" num_generations: 8, {completions}"
        ),
        "ppo": (
            "train: ppo, model: start, data: sums, reward: solution, params: {batch_size: 72,"
            f" num_ppo_epochs: 2, {completions}"
        ),
    }
    start = (
        "train: sft, model: base, data: both, params: {batch_size: 27, max_length: 64,"
        f" max_steps: {scale.warm_steps}, learning_rate: {rate}, save_steps: {scale.warm_steps}}}"
    )
    chosen = {name: f"{text[name]}, on_failure: continue" for name in scale.killed_methods}
    return {"start": start, **chosen}


def run_with_kills(
    folder: Path, home: Path, pending: set[str], seconds: float
) -> tuple[RecipeRun, dict[str, int]]:
    """Run the recipe. Kill everything after the first checkpoint of each stage, and run it again. Returns the
    run, and the step of the checkpoint after which each stage was killed."""
    deadline, stopped = time.monotonic() + seconds, out_of_time(seconds)
    killed: dict[str, int] = {}
    log = folder / "killed.log"
    while time.monotonic() < deadline:
        with log.open("ab") as output:
            process = start_recipe(recipe_command(folder, home), output)
            found = _wait_for_checkpoint(process, home, pending - killed.keys(), deadline)
        if process.poll() is not None:
            stopped = ""
            break
        kill_tree(process.pid)
        process.wait()
        killed |= found
    return RecipeRun.of(home, log.read_text(encoding="utf-8", errors="replace"), stopped), killed


def _wait_for_checkpoint(
    process: subprocess.Popen[bytes], home: Path, pending: set[str], deadline: float
) -> dict[str, int]:
    """Wait until a pending stage has a checkpoint, and return all of those stages. Empty after the deadline,
    or when the run has ended."""
    while process.poll() is None and time.monotonic() < deadline:
        found = {stage: step for stage, step in _checkpoints(home) if stage in pending}
        if found:
            return found
        time.sleep(_POLL_SECONDS)
    return {}


def _checkpoints(home: Path) -> list[tuple[str, int]]:
    """The stages under way, and the steps of their latest checkpoints."""
    found: list[tuple[str, int]] = []
    for record in home.glob("work/*/record"):
        with contextlib.suppress(OSError, ValueError, KeyError):  # a file under way, or just moved
            stage = json.loads((record / "step.json").read_text(encoding="utf-8"))["id"]
            lines = (record / "events.jsonl").read_text(encoding="utf-8").splitlines()
            steps = [json.loads(line)["step"] for line in lines if '"checkpoint"' in line]
            found += [(stage, max(steps))] if steps else []
    return found


def resume_row(
    first: RecipeRun,
    second: RecipeRun,
    killed: RecipeRun,
    step: int | None,
    stage: str,
    differing: list[str],
) -> list[Any]:
    products = [one.product(stage) for one in (first, second, killed)]
    for run, product in zip((first, second, killed), products, strict=True):
        if product is None:
            return [f"no: {run.failure(stage)}"]
    a, b, c = (product.digests for product in products if product is not None)
    losses = [one.metrics(stage, "loss") for one in (first, second, killed)]
    if a != b:
        differing.append(stage)
    return [
        "ended before the kill" if step is None else step,
        _resumed_at(killed, stage),
        "identical" if a == b else "differ",
        "identical" if a == c else "differs",
        first_difference(losses[0], losses[1]),
        first_difference(losses[0], losses[2]),
        ", ".join(sorted(name for name in a.keys() | c.keys() if a.get(name) != c.get(name))),
    ]


def _resumed_at(run: RecipeRun, stage: str) -> str:
    record = run.record(stage)
    lines = (record / "events.jsonl").read_text(encoding="utf-8").splitlines() if record else []
    events = [json.loads(line) for line in lines if '"resumed"' in line]
    return ", ".join(str(event["step"]) for event in events)


def first_difference(one: Sequence[float], other: Sequence[float]) -> int | None:
    """The first step whose loss differs, from 1."""
    pairs = enumerate(zip(one, other, strict=False), start=1)
    return next((number for number, (a, b) in pairs if a != b), None)


def _report_causes(bench: Bench, plan: Plan, first: RecipeRun, differing: list[str]) -> None:
    head = ["stage", "variation", "two runs of a TRL script", "seconds a step"]
    note = "For the stages whose undisturbed runs differ; without any, for one stage."
    table = bench.report.table("What makes two runs equal", head, note)
    for stage in differing:
        step = json.loads(step_to_json(plan.step(stage)))
        if step["params"]["method"] not in plain_trl.METHODS:
            bench.report.add(table, stage, None, "TRL has no trainer", None)
            continue
        products = {role: first.product(source["step"]) for role, source in step["inputs"].items()}
        inputs = {role: str(product.files) for role, product in products.items() if product is not None}
        for name, extra in _VARIATIONS.items():
            bench.attempt(table, stage, 20, partial(_variation_row, bench, step, inputs, stage, name, extra))


def _variation_row(
    bench: Bench,
    step: Mapping[str, Any],
    inputs: Mapping[str, str],
    stage: str,
    name: str,
    extra: Mapping[str, Any],
) -> list[Any]:
    train = partial(plain_trl.train_plain, step, inputs, max_steps=bench.scale.steps, **extra)
    runs = [bench.fork(f"cause-{stage}", train, 60) for _ in range(2)]
    seconds = statistics.median(runs[0]["step_seconds"])
    return [name, "identical" if runs[0]["weights"] == runs[1]["weights"] else "differ", seconds]
