"""Checks the metrics of a run for anomalies, and reports each as a failure or as a single warning.

The monitor never changes the training. Checkpoints hold its state, so a resumed run is judged like an
uninterrupted one.
"""

import math
from collections.abc import Mapping
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.events import EventWriter
from posttrain.runtime.training.training_params import TrainingParams
from posttrain.spec.extension import Schedule

# The number of initial steps with zero gradient after which the stage fails.
_ZERO_GRADIENT_STEPS = 3
# The number of consecutive steps with only truncated completions after which the monitor warns.
_TRUNCATED_STEPS = 3
# A loss above both bounds, relative to the first loss, counts as diverged.
_LOSS_DIVERGENCE_FACTOR, _LOSS_DIVERGENCE_MARGIN = 10.0, 10.0
INSTABILITY_ADVICE = "lower the learning rate, raise warmup_steps, or train in float32"
_FIRST_STEP_ADVICE = f"check the starting model's weights for NaN, or {INSTABILITY_ADVICE}"


class AnomalyMonitor:
    """Checks the metrics of every step."""

    def __init__(self, events: EventWriter, params: TrainingParams, schedule: Schedule) -> None:
        self._events = events
        self._params = params
        # The reaction to a reward that never varies; None for methods without a reward.
        self._on_constant_reward: str | None = getattr(params, "on_constant_reward", None)
        # True if rewards are compared within a prompt, False if across all completions.
        self._compares_groups = hasattr(params, "num_generations")
        self._state: dict[str, Any] = {
            "zero_gradient": 0,
            "constant_reward": 0,
            "truncated": 0,
            "warned": [],
            "first_loss": None,
        }
        self.set_schedule(schedule)

    def set_schedule(self, schedule: Schedule) -> None:
        """Set the limits that depend on the number of steps."""
        self._zero_gradient_limit = min(_ZERO_GRADIENT_STEPS, schedule.steps)
        # There is one set of rewards for each generation, which may serve several optimizer steps.
        steps = min(getattr(self._params, "constant_reward_steps", 1), schedule.steps)
        self._constant_reward_limit = math.ceil(steps / schedule.checkpoint_alignment)

    def state_dict(self) -> dict[str, Any]:
        return dict(self._state)

    def load_state_dict(self, state: Any) -> None:
        if isinstance(state, dict):
            self._state |= state

    def check_step(self, step: int, values: Mapping[str, float]) -> None:
        """Check the metrics of a step. Raises StepError if the stage cannot make progress."""
        _check_finite(step, values)
        if self._on_constant_reward is None:
            self._check_zero_gradient(step, values)
            self._check_loss_divergence(step, values)
        else:
            self._check_constant_reward(step, values)
            self._check_truncation(values)

    def warn_once(self, message: str, advice: str) -> None:
        """Emit a warning at most once in a run, including its resumed attempts."""
        if message not in self._state["warned"]:
            self._state["warned"].append(message)
            self._events.emit("warning", message=message, advice=advice)

    def _check_zero_gradient(self, step: int, values: Mapping[str, float]) -> None:
        """Fail if the gradient is zero in all of the first steps: no trained weight affects the loss."""
        norm = values.get("gradient_norm")
        if norm is None or self._state["zero_gradient"] < 0:
            return
        self._state["zero_gradient"] = self._state["zero_gradient"] + 1 if norm == 0.0 else -1
        if self._state["zero_gradient"] >= self._zero_gradient_limit:
            raise StepError(
                f"the gradient was zero in each of the first {step} steps: the model does not learn",
                "check that the rows have tokens to train on within max_length, and that the trained weights"
                " affect the loss",
            )

    def _check_loss_divergence(self, step: int, values: Mapping[str, float]) -> None:
        loss = values.get("loss")
        if loss is None:
            return
        if self._state["first_loss"] is None:
            self._state["first_loss"] = loss
        first = self._state["first_loss"]
        if loss > max(first * _LOSS_DIVERGENCE_FACTOR, first + _LOSS_DIVERGENCE_MARGIN) and first >= 0:
            self.warn_once("the loss has risen to more than ten times its first value", INSTABILITY_ADVICE)

    def _check_constant_reward(self, step: int, values: Mapping[str, float]) -> None:
        """Report rewards that have not differed between compared completions since the start of the run."""
        same = values.get("frac_reward_zero_std")
        if same is None or self._state["constant_reward"] < 0:
            return
        self._state["constant_reward"] = self._state["constant_reward"] + 1 if same == 1.0 else -1
        if self._state["constant_reward"] == self._constant_reward_limit:
            self._report_constant_reward(step)

    def _report_constant_reward(self, step: int) -> None:
        steps = "1 step" if step == 1 else f"{step} steps"
        if self._compares_groups:
            message, more = (
                f"all completions of each prompt had the same reward for {steps}",
                "num_generations",
            )
        else:
            message, more = f"all completions had the same reward for {steps}", "batch_size"
        message += ": the model does not learn"
        advice = (
            f"inspect sampled completions and their scores: raise temperature or {more}, give partial credit"
            " in the reward, or start from a model that succeeds sometimes"
        )
        if self._on_constant_reward == "fail":
            raise StepError(message, advice + "; `on_constant_reward: warn` continues instead")
        self.warn_once(message, advice)

    def _check_truncation(self, values: Mapping[str, float]) -> None:
        truncated = values.get("completions/clipped_ratio")
        if truncated is None:
            return
        self._state["truncated"] = self._state["truncated"] + 1 if truncated == 1.0 else 0
        if self._state["truncated"] == _TRUNCATED_STEPS:
            self.warn_once(
                f"every completion of {_TRUNCATED_STEPS} consecutive steps was truncated at"
                " max_completion_length",
                "raise max_completion_length, or first train the model to end its completions: truncated"
                " completions rarely get a reward",
            )


def _check_finite(step: int, values: Mapping[str, float]) -> None:
    for name in ("loss", "gradient_norm"):
        value = values.get(name)
        if value is not None and not math.isfinite(value):
            raise StepError(
                f"at step {step} the {name.replace('_', ' ')} is {value}",
                _FIRST_STEP_ADVICE if step == 1 else INSTABILITY_ADVICE,
            )
