"""A home with a running training stage, for tests of trackers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime.events import EventWriter
from posttrain.runtime.store import workdir
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.products import Product
from posttrain.runtime.store.runs import new_run
from posttrain.spec.keys import digest, key_parts
from posttrain.spec.plan import Plan, SourceLocation, Step

VALUES: Mapping[str, Any] = {"kind": "train", "environment": {}}
STEP = Step(
    id="sft",
    kind="train",
    entry="posttrain.runtime.methods.sft:run",
    params={"method": "sft", "params": {"max_steps": 4, "learning_rate": None, "names": ["a", "b"]}},
    place=SourceLocation(file="recipe.yaml", line=1, column=1),
    key=digest(VALUES),
    key_parts=key_parts(VALUES),
    key_values=VALUES,
)


class FakeTrainingRun:
    """A run of one stage, in which the test acts as the worker."""

    def __init__(self, root: Path, *trackers: str) -> None:
        self.home = Home(root / ".recipe")
        self.plan = Plan(
            name="sums", description="", seed=0, steps=(STEP,), target={}, tracking=tuple(trackers)
        )
        self.run = new_run(self.home, self.plan, root / "recipe.yaml")
        self.work = self.home.workdir(STEP.key)
        workdir.prepare(self.work, STEP, {}, root)
        (self.work / "files").mkdir()
        self.events = EventWriter(self.work / "record" / "events.jsonl")

    def restart(self) -> None:
        """Another run of the same recipe."""
        self.run = new_run(self.home, self.plan, self.run)

    def attempt(self, *steps: int, resumed: int | None = None) -> None:
        self.events.emit("started", attempt=1)
        if resumed is not None:
            self.events.emit("resumed", step=resumed)
        for step in steps:
            self.events.emit("metrics", step=step, values={"loss": 1.0 / step, "reward/format": 0.5})

    def finish(self) -> Product:
        metrics = {
            "accuracy": {"value": 0.75, "low": 0.5, "high": 0.9},
            "unknown": dict.fromkeys(("value", "low", "high")),
        }
        cost = {"seconds": 3.0, "peak_memory_mb": 200.0}
        receipt = workdir.write_receipt(self.work, STEP.key, {"metrics": metrics}, cost)
        return workdir.commit(self.work, STEP, STEP.key, receipt, self.home.store)
