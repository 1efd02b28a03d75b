"""How the learning rate goes over a run, as the trainer's arguments."""

import math
from typing import Any

from posttrain.runtime.training.params import TrainingParams

# A tenth of the steps, as those who train by this schedule take.
_DECAY = 0.1


def warm(params: TrainingParams, steps: int) -> int:
    """The steps in which the rate rises."""
    return math.ceil(params.warmup * steps) if params.warmup_steps is None else params.warmup_steps


def rate_arguments(params: TrainingParams, steps: int, highest: float) -> dict[str, Any]:
    """The trainer's arguments for `steps` steps, of which the highest rate is `highest`."""
    kind, more = _shape(params, steps, highest)
    return {
        "lr_scheduler_type": kind,
        "lr_scheduler_kwargs": more or None,
        "warmup_steps": warm(params, steps),
    }


def _shape(params: TrainingParams, steps: int, highest: float) -> tuple[str, dict[str, Any]]:
    match params.schedule:
        case "constant":
            return "constant_with_warmup", {}
        case "linear" if params.floor:
            return "polynomial", {"power": 1.0, "lr_end": params.floor * highest}
        case "cosine" if params.floor:
            return "cosine_with_min_lr", {"min_lr_rate": params.floor}
        case "wsd":
            falling = min(steps - warm(params, steps), math.ceil((params.decay or _DECAY) * steps))
            return "warmup_stable_decay", {
                "num_decay_steps": max(1, falling),
                "min_lr_ratio": params.floor,
            }
        case kind:
            return kind, {}
