"""Early stopping: tracks the best evaluation of a training stage, and decides when to stop."""

from collections.abc import Mapping
from typing import Any

from posttrain.spec.step_params.train_params import InLoopEvalOptions


class EarlyStopping:
    """Tracks one metric over the evaluations. Checkpoints hold its state."""

    def __init__(self, options: InLoopEvalOptions) -> None:
        self._metric = options.metric_for_best_model
        self._sign = 1.0 if options.greater_is_better else -1.0
        self._threshold = options.early_stopping_threshold
        self._patience = options.early_stopping_patience
        self.keeps_best = options.keep == "best"
        self._state: dict[str, Any] = {"step": None, "value": None, "evals_without_improvement": 0}

    def state_dict(self) -> dict[str, Any]:
        return dict(self._state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._state |= state

    def update(self, step: int, values: Mapping[str, float]) -> bool:
        """Record an evaluation. Returns whether it is the best so far; never for one without a value."""
        if self._metric is None:
            return False
        value, best = values.get(self._metric), self._state["value"]
        if value is None or (best is not None and (value - best) * self._sign <= self._threshold):
            self._state["evals_without_improvement"] += 1
            return False
        self._state |= {"step": step, "value": value, "evals_without_improvement": 0}
        return True

    @property
    def best_step(self) -> int | None:
        """The step of the best evaluation."""
        return self._state["step"]

    @property
    def should_stop(self) -> bool:
        """Whether the last `early_stopping_patience` evaluations brought no improvement."""
        return self._patience is not None and self._state["evals_without_improvement"] >= self._patience

    def facts(self) -> dict[str, Any]:
        """Return the facts for the record of the product."""
        if self._metric is None:
            return {}
        return {"best": {"metric": self._metric, "step": self.best_step, "value": self._state["value"]}}
