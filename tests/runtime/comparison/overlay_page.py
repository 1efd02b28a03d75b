"""A comparison of eight runs with known events: the expected values of its overlaid charts."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner
from tests.runtime.report.conftest import RunBuilder, make_step

from posttrain.cli.main import main
from posttrain.runtime.store.run_labels import RunLabels, write_labels

STEPS = 90


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """What a run reports."""

    steps: Iterable[int]
    factor: float = 1.0
    nonfinite: Iterable[int] = ()
    # Of a step.
    tokens: int = 1000
    seconds: float = 2.0
    kl: bool = False

    def loss(self, step: float) -> float:
        return math.nan if step in self.nonfinite else self.factor * (3 * math.exp(-step / 30) + 0.2)

    def losses(self) -> dict[int, float]:
        """The finite values."""
        found = {step: self.loss(step) for step in self.steps}
        return {step: value for step, value in found.items() if math.isfinite(value)}


RUNS = {
    "A": TrainedRun(steps=range(1, 91), kl=True),
    "B": TrainedRun(steps=range(1, 61), factor=0.8, tokens=2000, seconds=3.0, kl=True),
    "C": TrainedRun(steps=range(31, 91), factor=1.2, nonfinite=(40, 41, 90)),
    "D": TrainedRun(steps=(30,), factor=0.5),
    "E": TrainedRun(steps=range(2, 91, 2), factor=1.4),
    "F": TrainedRun(steps=range(1, 11), nonfinite=range(1, 11)),
    "G": TrainedRun(steps=range(1, 21), factor=1.6),
    "H": TrainedRun(steps=range(1, 21), factor=1.8),
}
NAMES = {"B": 'a "better" one, with a comma', "H": " ".join(["a name too long for a row of the legend"] * 3)}


def shown(value: float) -> str:
    """A number as a chart shows it."""
    return f"{float(f'{value:.4g}'):g}"


def write_overlays(folder: Path) -> Path:
    """The page that compares the runs."""
    runs = [_write_run(folder, mark, run) for mark, run in RUNS.items()]
    page = folder / "page.html"
    done = CliRunner().invoke(main, ["report", *map(str, runs), "-o", str(page)])
    assert done.exit_code == 0, done.output
    return page


def _write_run(folder: Path, mark: str, run: TrainedRun) -> Path:
    built = RunBuilder(folder / mark)
    built.begin(make_step("sft"))
    events: list[dict[str, object]] = [{"at": 0.0, "kind": "started", "attempt": 1}]
    for count, step in enumerate(run.steps, 1):
        values = {"loss": run.loss(step), "cost/tokens": run.tokens}
        values |= {"kl": math.sin(step)} if run.kl else {}
        values |= {"entropy": 2 + math.cos(step)} if mark == "A" else {}
        events.append({"at": run.seconds * count, "kind": "metrics", "step": step, "values": values})
    path = built.work("sft") / "record" / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    write_labels(built.run, RunLabels(name=NAMES.get(mark, f"run {mark}")))
    return built.run
