"""The evaluations of a training stage: made when they are due, told as events, and taken into account."""

import shutil
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.distributed.full_weights import unsharded_model
from posttrain.runtime.distributed.process_group import broadcast, is_rank_zero
from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.store import checkpoints
from posttrain.runtime.training.early_stopping import EarlyStopping
from posttrain.runtime.training.inloop_eval import build_evals
from posttrain.spec.extension import Schedule

_STATE_FILE = "evaluations.json"


class EvalCallback:
    """For stages without `evaluate` it does nothing. The first process evaluates, the others wait for it:
    what is asked of judges and environments is asked once."""

    def __init__(self, context: StepContext, tokenizer: Any, planned: Schedule) -> None:
        self._context = context
        self._tokenizer = deepcopy(tokenizer)  # it keeps how it was last used, and is saved with that
        wanted: Mapping[str, Any] | None = context.params.get("evaluate")
        self._every: int = wanted["eval_steps"] if wanted else 0
        self._evals = build_evals(context, self._tokenizer) if is_rank_zero() else []
        self.early_stopping = EarlyStopping(wanted) if wanted else None
        self.set_schedule(planned)

    def set_schedule(self, planned: Schedule) -> None:
        """Take in which step is the last."""
        self._last = planned.steps

    def is_due(self, step: int) -> bool:
        return self.early_stopping is not None and (step % self._every == 0 or step == self._last)

    def evaluate(self, step: int, model: Any) -> bool:
        """Measure the model after a step; whether its weights are to be kept as the best."""
        assert self.early_stopping is not None, "an evaluation is due only where there are evals"
        found: dict[str, float] = {}
        with unsharded_model(model, self._context.step.launch.strategy):
            for one in self._evals:
                found |= one.evaluate(model, self._tokenizer)
            found = broadcast(found)
        self._context.events.emit("metrics", step=step, values={f"eval/{k}": v for k, v in found.items()})
        return self.early_stopping.update(step, found) and self.early_stopping.keeps_best

    @property
    def should_stop(self) -> bool:
        """Whether training ends before its last step."""
        return self.early_stopping is not None and self.early_stopping.should_stop

    def best_checkpoint(self) -> Path | None:
        """The checkpoint with the weights that the stage gives; None for the last ones."""
        if (
            self.early_stopping is None
            or not self.early_stopping.keeps_best
            or self.early_stopping.best_step is None
        ):
            return None
        return self._context.checkpoints / f"checkpoint-{self.early_stopping.best_step}"

    def save_state(self, checkpoint: Path) -> None:
        if self.early_stopping is not None:
            atomic_io.write_json(checkpoint / _STATE_FILE, self.early_stopping.state_dict(), sync=False)

    def load_state(self, checkpoint: Path) -> None:
        if self.early_stopping is not None:
            self.early_stopping.load_state_dict(atomic_io.read_json(checkpoint / _STATE_FILE))

    def facts(self) -> dict[str, Any]:
        return self.early_stopping.facts() if self.early_stopping else {}


def latest_usable_checkpoint(context: StepContext) -> Path | None:
    """The newest checkpoint to go on from: whole, and with the best weights that it speaks of there.

    Others are removed, so that what is left is what a run without the damage would have left.
    """
    while (found := checkpoints.latest_intact(context.checkpoints)) is not None:
        best = (atomic_io.read_json(found / _STATE_FILE) or {}).get("step")
        kept = context.checkpoints / f"checkpoint-{best}"
        if best is None or kept == found or (kept / checkpoints.MANIFEST).exists():
            return found
        (found / checkpoints.MANIFEST).unlink()
        shutil.rmtree(found)
    return None


def check_best_checkpoint(best: Path) -> Path:
    """The checkpoint with the best weights, which nothing removes but damage from outside."""
    if not (best / checkpoints.MANIFEST).exists():
        raise StepError(
            f"the best weights, of {best.name}, are not there any more",
            "run again: the stage begins anew from a checkpoint that is whole",
        )
    return best
