"""Runs the in-loop evaluations of a training stage, reports them as events, and applies early stopping."""

import shutil
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.distributed.process_group import broadcast, is_rank_zero
from posttrain.runtime.environments.eval_episodes import TokenCounter
from posttrain.runtime.errors import StepError
from posttrain.runtime.models.context_length import context_length
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.store import checkpoints
from posttrain.runtime.training.anomaly_monitor import INSTABILITY_ADVICE
from posttrain.runtime.training.early_stopping import EarlyStopping
from posttrain.runtime.training.inloop_eval import build_evals, preserve_training_state
from posttrain.runtime.training.inloop_generation import InLoopGenerator, open_generator
from posttrain.runtime.training.validation_loss import (
    HeldOutEvaluation,
    evaluate_rows,
    event_name,
    saved_metrics,
)
from posttrain.spec.extension import Schedule
from posttrain.spec.step_params.train_params import EVALUATION_DIR, TrainStepParams

_STATE_FILE = "early_stopping.json"
_LOSS = "eval_loss"


class EvalCallback:
    """Evaluates a training stage at the steps that its `evaluate` section sets; does nothing without one.

    Rank 0 evaluates, so that judges and environments get each request once. All processes generate.
    """

    def __init__(self, context: StepContext[TrainStepParams], tokenizer: Any, schedule: Schedule) -> None:
        self._context = context
        # A copy: a tokenizer stores its last padding and truncation, and would be saved with them.
        self._tokenizer = deepcopy(tokenizer)
        options = context.params.evaluate
        self._every = options.eval_steps if options else 0
        self._has_evals = options is not None and bool(options.evals)
        self._evals = build_evals(context, self._tokenizer) if is_rank_zero() else []
        self._evaluates_rows = options is not None and options.metrics is not None
        # The last evaluation of held-out rows, and its step.
        self._held_out: tuple[int, HeldOutEvaluation] | None = None
        self._warned_not_finite = False
        self.early_stopping = EarlyStopping(options) if options else None
        self.set_schedule(schedule)

    def set_schedule(self, schedule: Schedule) -> None:
        """Set the last step, which is always evaluated."""
        self._last = schedule.steps

    def is_due(self, step: int) -> bool:
        return self.early_stopping is not None and (step % self._every == 0 or step == self._last)

    def longest_sequence(self) -> int:
        """Return the tokens of the longest prompt with its completion, for the engine; 0 without evals.

        Collective: all processes must call this.
        """
        return broadcast(max((one.longest_sequence(self._tokenizer) for one in self._evals), default=0))

    def evaluate(self, step: int, trainer: Any) -> bool:
        """Evaluate the model after a step. Returns whether its weights must be saved as the best."""
        assert self.early_stopping is not None, "no evaluation is due without evals"
        began = time.monotonic()
        with preserve_training_state(trainer.model):
            metrics = self._evaluate_rows(step, trainer) if self._evaluates_rows else {}
            generated = self._run_evals(trainer)
        values = {event_name(name): value for name, value in metrics.items()}
        values |= {f"eval/{name}": value for name, value in generated.items()}
        seconds = {"cost/eval_seconds": time.monotonic() - began}
        self._context.events.emit("metrics", step=step, values={**values, **seconds})
        better = self.early_stopping.update(step, {**metrics, **generated})
        return better and self.early_stopping.keeps_best

    def _evaluate_rows(self, step: int, trainer: Any) -> dict[str, float]:
        """Evaluate the held-out rows, and keep the result for the checkpoint of this step."""
        found = evaluate_rows(trainer, self._context)
        self._check_finite(step, found)
        self._held_out = (step, found)
        return found.values

    def _check_finite(self, step: int, found: HeldOutEvaluation) -> None:
        """Fail if no row has a finite loss, as for the loss of the training. Warn once of single rows."""
        counts = found.items_not_finite()
        if counts.get(_LOSS) == len(found.items):
            message = f"at step {step} the loss of every held-out row is NaN or infinite"
            raise StepError(message, INSTABILITY_ADVICE)
        if not counts or self._warned_not_finite:
            return
        self._warned_not_finite = True
        listed = ", ".join(f"`{name}` in {count} of {len(found.items)}" for name, count in counts.items())
        self._context.events.emit(
            "warning",
            message=f"held-out rows are NaN or infinite at step {step}: {listed}. These metrics have no"
            " value, and the step cannot be the best",
            advice=f"{INSTABILITY_ADVICE}; if it stays, look for such rows in evaluation/rows.parquet",
        )

    def warn_without_best(self) -> None:
        """Warn if the last weights are the product, because no evaluation had a value for the metric."""
        options = self._context.params.evaluate
        if options is None or options.keep != "best" or self.best_checkpoint() is not None:
            return
        self._context.events.emit(
            "warning",
            message=f"no evaluation had a value of `{options.metric_for_best_model}`: the product has the"
            " weights of the last step, not the best",
            advice="look at the warnings of the evaluations and at their rows",
        )

    def _run_evals(self, trainer: Any) -> dict[str, float]:
        if not self._has_evals:
            return {}
        with open_generator(trainer, self._tokenizer, self._context.step.launch) as generator:
            return broadcast(self._measure(generator, trainer.model))

    def _measure(self, generator: InLoopGenerator, model: Any) -> dict[str, float]:
        """Return the metrics on rank 0. The other processes generate for it."""
        if not is_rank_zero():
            generator.serve()
            return {}
        metrics: dict[str, float] = {}
        counter = TokenCounter(self._tokenizer, context_length(model))
        for one in self._evals:
            metrics |= one.evaluate(generator, counter)
        generator.finish()
        return metrics

    @property
    def should_stop(self) -> bool:
        """Whether early stopping ends the training before its last step."""
        return self.early_stopping is not None and self.early_stopping.should_stop

    def best_checkpoint(self) -> Path | None:
        """Return the checkpoint with the best weights, or None if the product is the last weights."""
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
        if self._held_out is not None and self._held_out[0] == checkpoints.checkpoint_step(checkpoint):
            self._held_out[1].save(checkpoint / EVALUATION_DIR)

    def save_product(self, step: int, out: Path) -> dict[str, Any]:
        """Copy the evaluation of the saved weights into the product. `step` is the last step of the training.

        Returns the facts for the record of the product.
        """
        if not self._evaluates_rows or not is_rank_zero():
            return {}
        source = self.best_checkpoint() or self._context.checkpoints / f"checkpoint-{step}"
        shutil.copytree(source / EVALUATION_DIR, out / EVALUATION_DIR)
        return {"metrics": saved_metrics(out / EVALUATION_DIR)}

    def load_state(self, checkpoint: Path) -> None:
        if self.early_stopping is not None:
            self.early_stopping.load_state_dict(atomic_io.read_json(checkpoint / _STATE_FILE))

    def facts(self) -> dict[str, Any]:
        return self.early_stopping.facts() if self.early_stopping else {}


def latest_usable_checkpoint(context: StepContext) -> Path | None:
    """Return the latest intact checkpoint whose best checkpoint still exists, or None.

    Newer checkpoints are deleted, so that the folder looks as if the run had been interrupted earlier.
    """
    while (latest := checkpoints.latest_intact(context.checkpoints)) is not None:
        best = (atomic_io.read_json(latest / _STATE_FILE) or {}).get("step")
        best_folder = context.checkpoints / f"checkpoint-{best}"
        if best is None or best_folder == latest or (best_folder / checkpoints.MANIFEST).exists():
            return latest
        (latest / checkpoints.MANIFEST).unlink()
        shutil.rmtree(latest)
    return None


def check_best_checkpoint(best: Path) -> Path:
    """Check that the checkpoint with the best weights still exists; only outside interference removes it."""
    if not (best / checkpoints.MANIFEST).exists():
        raise StepError(
            f"{best.name}, which holds the best weights, is missing",
            "run the recipe again: the stage resumes from an intact checkpoint",
        )
    return best
