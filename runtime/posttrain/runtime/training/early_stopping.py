"""What follows from evaluations made while a model is trained: which was the best, and when to end."""

from collections.abc import Mapping
from typing import Any


class EarlyStopping:
    """Sees one metric over the evaluations. What it has seen is kept in checkpoints."""

    def __init__(self, wanted: Mapping[str, Any]) -> None:
        self._metric: str | None = wanted["metric_for_best_model"]
        self._sign = 1.0 if wanted["greater_is_better"] else -1.0
        self._threshold: float = wanted["early_stopping_threshold"]
        self._patience: int | None = wanted["early_stopping_patience"]
        self.keeps_best: bool = wanted["keep"] == "best"
        self._state: dict[str, Any] = {"step": None, "value": None, "waited": 0}

    def state_dict(self) -> dict[str, Any]:
        return dict(self._state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._state |= state

    def update(self, step: int, values: Mapping[str, float]) -> bool:
        """Take an evaluation in; whether it is the best so far. One without a value is none the better."""
        if self._metric is None:
            return False
        value, best = values.get(self._metric), self._state["value"]
        if value is None or (best is not None and (value - best) * self._sign <= self._threshold):
            self._state["waited"] += 1
            return False
        self._state |= {"step": step, "value": value, "waited": 0}
        return True

    @property
    def best_step(self) -> int | None:
        """The step of the best evaluation."""
        return self._state["step"]

    @property
    def should_stop(self) -> bool:
        """Whether as many evaluations in a row as there is patience for were no better."""
        return self._patience is not None and self._state["waited"] >= self._patience

    def facts(self) -> dict[str, Any]:
        """What the product says of it."""
        if self._metric is None:
            return {}
        return {"best": {"metric": self._metric, "step": self.best_step, "value": self._state["value"]}}
