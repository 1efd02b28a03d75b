"""Runs a training step of a plan with the code of the worker, in a forked process that can observe it."""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from perf.cuda.bench import Bench
from perf.cuda.recipes import RecipeRun, compile_recipe, run_recipe, write_recipe

from posttrain.runtime.events import read_events
from posttrain.runtime.store import workdir
from posttrain.spec.plan import Plan, Step, step_to_json

Observer = Callable[[], AbstractContextManager[None]]


class StopTraining(Exception):
    """Raised by an observer that has seen enough. The stage then has no product."""


class StageRuns:
    """The stages of a recipe, with their datasets and models as the product makes them."""

    def __init__(
        self,
        bench: Bench,
        name: str,
        stages: Mapping[str, str],
        models: tuple[str, ...],
        datasets: Mapping[str, list[dict[str, Any]]],
        gpus: int = 1,
    ) -> None:
        self._bench = bench
        self.folder = bench.new_folder(name)
        for dataset, rows in datasets.items():
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (self.folder / f"{dataset}.jsonl").write_text(lines, encoding="utf-8")
        declared = "".join(f"  {one}: {{from: {{files: {one}.jsonl}}}}\n" for one in datasets)
        read = ", ".join(f"r_{one}: {one}" for one in (*models, *datasets, "sums"))
        write_recipe(
            self.folder,
            bench.scale,
            {**stages, "inputs": f'script: ["true"], inputs: {{{read}}}'},
            models={one: bench.model(one) for one in models},
            datasets=declared,
            gpus=gpus,
        )
        self.plan: Plan = compile_recipe(self.folder)
        home = self.folder / "home"
        self._inputs: RecipeRun = run_recipe(self.folder, home, bench.left() / 3, "--only", "inputs")

    def step(self, stage: str) -> Step:
        return self.plan.step(stage)

    def step_json(self, stage: str) -> dict[str, Any]:
        return json.loads(step_to_json(self.step(stage)))

    def inputs(self, stage: str) -> dict[str, str]:
        """The folders of the products that the stage reads."""
        found: dict[str, str] = {}
        for role, source in self.step(stage).inputs.items():
            product = self._inputs.product(source.step)
            if product is None:
                raise ValueError(
                    f"`recipe run` has not made {source.step}: {self._inputs.failure(source.step)}"
                )
            found[role] = str(product.files)
        return found

    def run(self, stage: str, observe: Observer = nullcontext, seconds: float = 180) -> list[dict[str, Any]]:
        """Train, and return the events."""
        step, inputs = self.step(stage), self.inputs(stage)
        work = self._bench.new_folder(f"work/{stage}")
        paths = {role: Path(path) for role, path in inputs.items()}
        workdir.prepare(work, step, paths, self.folder)
        self._bench.fork(f"stage-{stage}", lambda: run_worker(work, observe), seconds)
        return list(read_events(work / "record" / "events.jsonl"))


def run_worker(work: Path, observe: Observer) -> None:
    """The process of the worker. A failure is its message, except after StopTraining."""
    from posttrain.runtime import worker

    with observe():
        status = worker.main(work)
    if status == 0:
        return
    failure = json.loads((work / "failure.json").read_text(encoding="utf-8"))
    if StopTraining.__name__ not in failure["message"]:
        raise RuntimeError(f"{failure['message']}; {failure.get('advice', '')}")


def metric(events: list[dict[str, Any]], name: str) -> list[float]:
    return [e["values"][name] for e in events if e["kind"] == "metrics" and name in e["values"]]


def long_rows(count: int, length: int) -> list[dict[str, Any]]:
    """Rows of a prompt, two completions and an answer, of exactly `length` tokens with either completion."""
    words = "the model reads a text and writes the next word of it again. "
    prompt = 8
    rows: list[dict[str, Any]] = []
    for number in range(count):
        text = f"{number:06d} " + words * (length // len(words) + 2)
        size = length - prompt - 1  # the end token
        rows.append(
            {
                "prompt": text[:prompt],
                "completion": text[prompt : prompt + size],
                "chosen": text[prompt : prompt + size],
                "rejected": text[prompt + 1 : prompt + 1 + size],
                "answer": str(number % 10),
            }
        )
    return rows


def long_prompts(count: int, length: int) -> list[dict[str, Any]]:
    """Prompts of exactly `length` tokens, with an answer."""
    words = "add the numbers and write the sum of them. "
    return [
        {
            "prompt": (f"{number:06d} " + words * (length // len(words) + 2))[:length],
            "answer": str(number % 10),
        }
        for number in range(count)
    ]
