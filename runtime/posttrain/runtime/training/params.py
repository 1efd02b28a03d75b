"""The parameters that all training methods share, and the arithmetic of their steps."""

from typing import Literal

from pydantic import Field

from posttrain.spec.extension import Params, Schedule


class TrainingParams(Params):
    """What every method that trains by gradient steps takes."""

    learning_rate: float = Field(default=2e-5, gt=0, description="The highest learning rate.")
    schedule: Literal["constant", "linear", "cosine"] = Field(
        default="linear", description="How the learning rate falls after the warm-up."
    )
    warmup: float = Field(
        default=0.0, ge=0, lt=1, description="The share of the steps in which the rate rises."
    )
    weight_decay: float = Field(default=0.0, ge=0, description="AdamW's weight decay.")
    clip: float = Field(default=1.0, gt=0, description="The largest gradient norm; more is scaled down.")
    micro_batch: int | None = Field(
        default=None,
        ge=1,
        description="Sequences in memory at once; the rest of a batch is accumulated. Changes no result"
        " beyond rounding.",
    )
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        default="float32", description="The precision of the arithmetic; the weights keep their own."
    )
    gradient_checkpointing: bool = Field(
        default=False,
        description="Compute activations again instead of keeping them: less memory, more time.",
    )
    checkpoint_every: int | None = Field(
        default=None,
        ge=1,
        description="Optimizer steps between checkpoints, rounded up to where the method can resume"
        " exactly; a quarter of the run when not given.",
    )
    keep_checkpoints: int = Field(default=2, ge=1, description="Complete checkpoints that are kept.")


# Parameters that change speed, memory or reports, but not what is learnt.
NEUTRAL = ("micro_batch", "gradient_checkpointing", "checkpoint_every", "keep_checkpoints")
STACK = ("torch", "transformers", "trl", "peft", "accelerate", "tokenizers", "datasets", "numpy")


def divided(batch: int, micro_batch: int | None) -> int:
    """How many micro-batches make a batch."""
    micro = micro_batch or batch
    if batch % micro:
        raise ValueError(f"micro_batch ({micro}) does not divide the batch ({batch})")
    return batch // micro


def checkpoint_interval(params: TrainingParams, schedule: Schedule) -> int:
    """Steps between checkpoints: a multiple of the steps after which the method resumes exactly."""
    wanted = params.checkpoint_every or max(1, schedule.steps // 4)
    return -(-wanted // schedule.boundary) * schedule.boundary
