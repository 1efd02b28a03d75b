"""Watches the figures of a run and says when it goes wrong: as a failure, or as a warning once.

Nothing here changes what is learnt. What has been seen is kept in checkpoints, so that a run which
was killed and goes on is judged as one.
"""

import math
from collections.abc import Mapping
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.events import EventWriter
from posttrain.runtime.training.training_params import TrainingParams
from posttrain.spec.extension import Schedule

# So many first steps without any gradient mean that nothing is being learnt.
_ZERO_GRADIENT_STEPS = 3
# So many steps in a row in which every completion is cut mean that the model does not end.
_TRUNCATED_STEPS = 3
# A loss that has risen to so many times the first one, and by so much, has left what can be learnt.
_LOSS_DIVERGENCE_FACTOR, _LOSS_DIVERGENCE_MARGIN = 10.0, 10.0
_INSTABILITY_ADVICE = "lower the learning rate, raise warmup_steps, or train in float32"
_FIRST_STEP_ADVICE = f"look whether the starting model's weights are all numbers, or {_INSTABILITY_ADVICE}"


class AnomalyMonitor:
    """Sees the figures of every step."""

    def __init__(self, events: EventWriter, params: TrainingParams, planned: Schedule) -> None:
        self._events = events
        self._params = params
        # How a reward that never varies is taken; None for methods without a reward.
        self._on_constant_reward: str | None = getattr(params, "on_constant_reward", None)
        # Whether several completions of a prompt are compared, or all completions with each other.
        self._compares_groups = hasattr(params, "num_generations")
        self._state: dict[str, Any] = {"still": 0, "flat": 0, "cut": 0, "told": [], "first": None}
        self.set_schedule(planned)

    def set_schedule(self, planned: Schedule) -> None:
        """Take in how many steps there will be."""
        self._zero_gradient_limit = min(_ZERO_GRADIENT_STEPS, planned.steps)
        # Rewards come with each generation, whose completions may serve several steps.
        steps = min(getattr(self._params, "constant_reward_steps", 1), planned.steps)
        self._constant_reward_limit = math.ceil(steps / planned.checkpoint_alignment)

    def state_dict(self) -> dict[str, Any]:
        return dict(self._state)

    def load_state_dict(self, state: Any) -> None:
        if isinstance(state, dict):
            self._state |= state

    def check_step(self, step: int, values: Mapping[str, float]) -> None:
        """Judge the figures of a step; raises StepFault when it makes no sense to go on."""
        _check_finite(step, values)
        if self._on_constant_reward is None:
            self._check_zero_gradient(step, values)
            self._check_loss_divergence(step, values)
        else:
            self._check_constant_reward(step, values)
            self._check_truncation(values)

    def warn_once(self, message: str, advice: str) -> None:
        """Say something once in a run, however often it is resumed."""
        if message not in self._state["told"]:
            self._state["told"].append(message)
            self._events.emit("warning", message=message, advice=advice)

    def _check_zero_gradient(self, step: int, values: Mapping[str, float]) -> None:
        """No gradient in any of the first steps: nothing that is trained bears on the loss."""
        norm = values.get("gradient_norm")
        if norm is None or self._state["still"] < 0:
            return
        self._state["still"] = self._state["still"] + 1 if norm == 0.0 else -1
        if self._state["still"] >= self._zero_gradient_limit:
            raise StepError(
                f"the gradient was zero in each of the first {step} steps: nothing is learnt",
                "look whether the rows leave anything to learn within max_length, and whether what is"
                " trained bears on the loss",
            )

    def _check_loss_divergence(self, step: int, values: Mapping[str, float]) -> None:
        loss = values.get("loss")
        if loss is None:
            return
        if self._state["first"] is None:
            self._state["first"] = loss
        first = self._state["first"]
        if loss > max(first * _LOSS_DIVERGENCE_FACTOR, first + _LOSS_DIVERGENCE_MARGIN) and first >= 0:
            self.warn_once("the loss has risen to more than ten times the first one", _INSTABILITY_ADVICE)

    def _check_constant_reward(self, step: int, values: Mapping[str, float]) -> None:
        """No two completions that are compared rewarded differently since the run began."""
        same = values.get("frac_reward_zero_std")
        if same is None or self._state["flat"] < 0:
            return
        self._state["flat"] = self._state["flat"] + 1 if same == 1.0 else -1
        if self._state["flat"] == self._constant_reward_limit:
            self._report_constant_reward(step)

    def _report_constant_reward(self, step: int) -> None:
        steps = "1 step" if step == 1 else f"{step} steps"
        if self._compares_groups:
            message, more = (
                f"in {steps} no prompt had two completions with different rewards",
                "generations",
            )
        else:
            message, more = f"in {steps} no two completions had different rewards", "batch"
        message += ": nothing is learnt"
        advice = (
            f"sample some completions and score them: raise temperature or {more}, make the reward"
            " give part of it for less than the whole, or start from a model that succeeds at times"
        )
        if self._on_constant_reward == "fail":
            raise StepError(message, advice + "; `on_constant_reward: warn` goes on all the same")
        self.warn_once(message, advice)

    def _check_truncation(self, values: Mapping[str, float]) -> None:
        cut = values.get("completions/clipped_ratio")
        if cut is None:
            return
        self._state["cut"] = self._state["cut"] + 1 if cut == 1.0 else 0
        if self._state["cut"] == _TRUNCATED_STEPS:
            self.warn_once(
                f"every completion of {_TRUNCATED_STEPS} steps in a row was cut at its longest length",
                "raise max_tokens, or teach the model to end first: a completion that is cut is rarely"
                " rewarded",
            )


def _check_finite(step: int, values: Mapping[str, float]) -> None:
    for name in ("loss", "gradient_norm"):
        value = values.get(name)
        if value is not None and not math.isfinite(value):
            raise StepError(
                f"at step {step} the {name.replace('_', ' ')} is {value}",
                _FIRST_STEP_ADVICE if step == 1 else _INSTABILITY_ADVICE,
            )
