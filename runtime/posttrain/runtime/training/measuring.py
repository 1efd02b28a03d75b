"""The evaluations of a training stage: made when they are due, told as events, and taken into account."""

import shutil
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from posttrain.runtime import checkpoints, durable
from posttrain.runtime.context import Context
from posttrain.runtime.faults import StepFault
from posttrain.runtime.launch.group import agreed, first
from posttrain.runtime.launch.whole import held_whole
from posttrain.runtime.training.course import Course
from posttrain.runtime.training.evaluating import evals_of
from posttrain.spec.extension import Schedule

_FILE = "evaluations.json"


class Measuring:
    """For stages without `evaluate` it does nothing. The first process evaluates, the others wait for it:
    what is asked of judges and environments is asked once."""

    def __init__(self, context: Context, tokenizer: Any, planned: Schedule) -> None:
        self._context = context
        self._tokenizer = deepcopy(tokenizer)  # it keeps how it was last used, and is saved with that
        wanted: Mapping[str, Any] | None = context.params.get("evaluate")
        self._every: int = wanted["every"] if wanted else 0
        self._evals = evals_of(context, self._tokenizer) if first() else []
        self.course = Course(wanted) if wanted else None
        self.plan(planned)

    def plan(self, planned: Schedule) -> None:
        """Take in which step is the last."""
        self._last = planned.steps

    def due(self, step: int) -> bool:
        return self.course is not None and (step % self._every == 0 or step == self._last)

    def make(self, step: int, model: Any) -> bool:
        """Measure the model after a step; whether its weights are to be kept as the best."""
        assert self.course is not None, "an evaluation is due only where there are evals"
        found: dict[str, float] = {}
        with held_whole(model, self._context.step.launch.strategy):
            for one in self._evals:
                found |= one.make(model, self._tokenizer)
            found = agreed(found)
        self._context.events.emit("metrics", step=step, values={f"eval/{k}": v for k, v in found.items()})
        return self.course.see(step, found) and self.course.keeps_best

    @property
    def ended(self) -> bool:
        """Whether training ends before its last step."""
        return self.course is not None and self.course.ended

    def best(self) -> Path | None:
        """The checkpoint with the weights that the stage gives; None for the last ones."""
        if self.course is None or not self.course.keeps_best or self.course.best is None:
            return None
        return self._context.checkpoints / f"checkpoint-{self.course.best}"

    def keep(self, checkpoint: Path) -> None:
        if self.course is not None:
            durable.write_json(checkpoint / _FILE, self.course.seen(), sync=False)

    def restore(self, checkpoint: Path) -> None:
        if self.course is not None:
            self.course.restore(durable.read_json(checkpoint / _FILE))

    def facts(self) -> dict[str, Any]:
        return self.course.facts() if self.course else {}


def usable(context: Context) -> Path | None:
    """The newest checkpoint to go on from: whole, and with the best weights that it speaks of there.

    Others are removed, so that what is left is what a run without the damage would have left.
    """
    while (found := checkpoints.latest(context.checkpoints)) is not None:
        best = (durable.read_json(found / _FILE) or {}).get("step")
        kept = context.checkpoints / f"checkpoint-{best}"
        if best is None or kept == found or (kept / checkpoints.MANIFEST).exists():
            return found
        (found / checkpoints.MANIFEST).unlink()
        shutil.rmtree(found)
    return None


def check_kept(best: Path) -> Path:
    """The checkpoint with the best weights, which nothing removes but damage from outside."""
    if not (best / checkpoints.MANIFEST).exists():
        raise StepFault(
            f"the best weights, of {best.name}, are not there any more",
            "run again: the stage begins anew from a checkpoint that is whole",
        )
    return best
