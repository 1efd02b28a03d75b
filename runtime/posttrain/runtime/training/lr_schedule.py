"""Converts the learning rate parameters of a stage to trainer arguments."""

import math
from typing import Any

from posttrain.runtime.training.training_params import TrainingParams

# The usual length of the decay phase in the literature on this schedule: a tenth of the steps.
_DEFAULT_DECAY_RATIO = 0.1


def lr_scheduler_arguments(params: TrainingParams, steps: int, highest: float) -> dict[str, Any]:
    """Return the scheduler arguments for a run of `steps` steps with the peak rate `highest`."""
    kind, more = _scheduler_type(params, steps, highest)
    return {
        "lr_scheduler_type": kind,
        "lr_scheduler_kwargs": more or None,
        "warmup_steps": params.warmup_length(steps),
    }


def _scheduler_type(params: TrainingParams, steps: int, highest: float) -> tuple[str, dict[str, Any]]:
    match params.lr_scheduler_type:
        case "linear" if params.min_lr_ratio:
            return "polynomial", {"power": 1.0, "lr_end": params.min_lr_ratio * highest}
        case "cosine" if params.min_lr_ratio:
            return "cosine_with_min_lr", {"min_lr_rate": params.min_lr_ratio}
        case "warmup_stable_decay":
            falling = min(
                steps - params.warmup_length(steps),
                math.ceil((params.decay_ratio or _DEFAULT_DECAY_RATIO) * steps),
            )
            return "warmup_stable_decay", {
                "num_decay_steps": max(1, falling),
                "min_lr_ratio": params.min_lr_ratio,
            }
        case kind:
            return kind, {}
