"""The price of our loop: stages of a recipe beside the same training by TRL called by hand.

Both are forked from one process that has imported the stack, as a worker is, and take turns, so that
whatever else the machine does falls on both. What counts is the CPU time of the process (its own and the
kernel's, one thread), from loading the model to the saved product; and from the first step to the last.
"""

import json
import os
import shutil
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from by_hand import train

from posttrain.runtime import durable

_WARM = (
    *("pyarrow.parquet", "datasets", "peft", "trl", "trl.experimental.cpo", "trl.experimental.orpo"),
    *("trl.trainer.sft_trainer", "trl.trainer.dpo_trainer", "trl.trainer.kto_trainer"),
    *("trl.trainer.reward_trainer", "trl.trainer.grpo_trainer", "trl.trainer.rloo_trainer"),
    "posttrain.runtime.worker",  # the warm process has it too
)


@dataclass(frozen=True)
class Taken:
    """CPU seconds of one run: of the whole stage, and of its steps after the first."""

    whole: float
    steps: float
    losses: list[float]


@dataclass(frozen=True)
class Compared:
    name: str
    steps: int
    alike: bool
    hand: Sequence[Taken]
    ours: Sequence[Taken]

    def median(self, how: str, what: str) -> float:
        return statistics.median(getattr(taken, what) for taken in getattr(self, how))

    def ratio(self, what: str) -> float:
        return self.median("ours", what) / self.median("hand", what)

    def spread(self, what: str) -> tuple[float, float]:
        """The least and the greatest ratio of a round."""
        pairs = zip(self.ours, self.hand, strict=True)
        found = [getattr(ours, what) / getattr(hand, what) for ours, hand in pairs]
        return min(found), max(found)


def warm() -> None:
    """Import what both need, and compute with one thread."""
    from importlib import import_module

    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_TELEMETRY": "1"}
    for name in _WARM:
        import_module(name)
    import torch

    torch.set_num_threads(1)


def compared(name: str, step: dict[str, Any], inputs: dict[str, str], rounds: int) -> Compared:
    """A stage and the script, round after round, the one first that was last before."""
    hand, ours = list[Taken](), list[Taken]()
    for number in range(rounds):
        turns = [(hand, lambda: by_hand(step, inputs)), (ours, lambda: as_stage(step, inputs))]
        for taken, run in turns if number % 2 else reversed(turns):
            taken.append(run())
    alike = all(one.losses == hand[0].losses for one in (*hand, *ours))
    return Compared(name, len(hand[0].losses), alike, hand, ours)


def by_hand(step: dict[str, Any], inputs: dict[str, str]) -> Taken:
    return _apart(lambda: train(step, inputs))


def as_stage(step: dict[str, Any], inputs: dict[str, str]) -> Taken:
    return _apart(lambda: _worked(step, inputs))


def _worked(step: dict[str, Any], inputs: dict[str, str]) -> dict[str, Any]:
    """What a worker does with the step, with an eye on the clock at every step."""
    from posttrain.runtime import worker
    from posttrain.runtime.events import EventWriter, read_events

    work, times = Path.cwd() / "work", list[float]()
    durable.write_json(work / "record" / "step.json", step)
    durable.write_json(work / "job.json", {"attempt": 1, "inputs": inputs, "files": {}})
    real = EventWriter.emit

    def emit(events: EventWriter, kind: str, **fields: Any) -> None:
        if kind == "metrics":
            times.append(time.process_time())
        real(events, kind, **fields)

    EventWriter.emit = emit
    assert worker.main(work) == 0, (work / "failure.json").read_text()
    told = [event for event in read_events(work / "record" / "events.jsonl") if event["kind"] == "metrics"]
    return {"losses": [event["values"]["loss"] for event in told], "times": times}


def _apart(run: Callable[[], dict[str, Any]]) -> Taken:
    """Run in a forked process and a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="posttrain-beside-"))
    try:
        pid = os.fork()
        if pid == 0:
            _told(run, folder)
        _, status = os.waitpid(pid, 0)
        assert status == 0, (folder / "log").read_text()[-3000:]
        found = json.loads((folder / "found.json").read_text())
        return Taken(found["whole"], found["times"][-1] - found["times"][0], found["losses"])
    finally:
        shutil.rmtree(folder)


def _told(run: Callable[[], dict[str, Any]], folder: Path) -> None:
    """In the forked process: run, write down what came of it, and end."""
    os.chdir(folder)
    log = os.open("log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        began = time.process_time()
        found = run()
        whole = time.process_time() - began
        Path("found.json").write_text(json.dumps({**found, "whole": whole}))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
