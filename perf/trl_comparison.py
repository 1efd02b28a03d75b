"""Compares a stage of a recipe with the same training in a TRL script.

Both are forked from one process that has imported the stack, as a worker is, and alternate after every step.
Measured is the CPU time of the process (user and system, one thread), from loading the model to the saved
product, and from the first step to the last.
"""

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleaved_runs import CpuTime, Turn, run_interleaved
from trl_baseline import train_with_trl

from posttrain.runtime import atomic_io
from posttrain.runtime.training.rollout_training import ROLLOUT_HEAVY_IMPORTS

_PRELOADED_MODULES = (
    *("pyarrow.parquet", "datasets", "peft", "trl", "trl.experimental.cpo", "trl.experimental.orpo"),
    *("trl.trainer.sft_trainer", "trl.trainer.dpo_trainer", "trl.trainer.kto_trainer"),
    *("trl.trainer.reward_trainer", "trl.trainer.grpo_trainer", "trl.trainer.rloo_trainer"),
    "posttrain.runtime.worker",  # the fork server has it too, and what a method names as `preload`
    *ROLLOUT_HEAVY_IMPORTS,
)


@dataclass(frozen=True)
class Comparison:
    name: str
    steps: int
    losses_equal: bool
    hand: Sequence[CpuTime]
    ours: Sequence[CpuTime]

    def median(self, how: str, what: str) -> float:
        return statistics.median(getattr(taken, what) for taken in getattr(self, how))

    def ratio(self, what: str) -> float:
        return self.median("ours", what) / self.median("hand", what)

    def ratio_range(self, what: str) -> tuple[float, float]:
        """The minimum and the maximum ratio of a round."""
        pairs = zip(self.ours, self.hand, strict=True)
        found = [getattr(ours, what) / getattr(hand, what) for ours, hand in pairs]
        return min(found), max(found)


def preload_modules() -> None:
    """Import the modules that both need, and limit torch to one thread."""
    from importlib import import_module

    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_TELEMETRY": "1"}
    for name in _PRELOADED_MODULES:
        import_module(name)
    import torch

    torch.set_num_threads(1)


def compare_with_trl(name: str, step: dict[str, Any], inputs: dict[str, str], rounds: int) -> Comparison:
    """Run the stage and the script for several rounds, and alternate which one starts."""
    hand, ours = list[CpuTime](), list[CpuTime]()

    def by_hand(turn: Turn) -> list[float]:
        return train_with_trl(step, inputs, turn.end_step)

    def as_stage(turn: Turn) -> list[float]:
        return _run_worker(step, inputs, turn)

    for number in range(rounds):
        if number % 2:
            one, other = run_interleaved(by_hand, as_stage)
        else:
            other, one = run_interleaved(as_stage, by_hand)
        hand.append(one)
        ours.append(other)
    alike = all(one.losses == hand[0].losses for one in (*hand, *ours))
    return Comparison(name, len(hand[0].losses), alike, hand, ours)


def _run_worker(step: dict[str, Any], inputs: dict[str, str], turn: Turn) -> list[float]:
    """Run the step as a worker does, and hand over the turn after every training step."""
    from posttrain.runtime import worker
    from posttrain.runtime.events import EventWriter, read_events

    work = Path.cwd() / "work"
    atomic_io.write_json(work / "record" / "step.json", step)
    atomic_io.write_json(work / "job.json", {"attempt": 1, "inputs": inputs, "files": {}})
    real = EventWriter.emit

    def emit(events: EventWriter, kind: str, **fields: Any) -> None:
        real(events, kind, **fields)
        if kind == "metrics":
            turn.end_step()

    EventWriter.emit = emit
    assert worker.main(work) == 0, (work / "failure.json").read_text()
    logged = [event for event in read_events(work / "record" / "events.jsonl") if event["kind"] == "metrics"]
    return [event["values"]["loss"] for event in logged]
