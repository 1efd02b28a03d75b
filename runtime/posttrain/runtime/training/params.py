"""The parameters that all training methods share, and the arithmetic of their steps."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from posttrain.spec.declared import field
from posttrain.spec.extension import Params, Schedule


class TrainingParams(Params):
    """What every method that trains by gradient steps takes."""

    # The learning rate for all weights, when the recipe names none; each method has its own.
    usual_rate: ClassVar[float] = 2e-5

    learning_rate: float | None = field(
        default=None,
        gt=0,
        description="The highest learning rate; when not given, what is usual for the method (sft 2e-5,"
        " reward_model 1e-5, orpo 8e-6, the others 1e-6), and ten times that for an adapter.",
    )
    schedule: Literal["constant", "linear", "cosine", "inverse_sqrt", "wsd"] = field(
        default="linear",
        description="How the learning rate falls after the warm-up; wsd (warm-up, stable, decay) stays at"
        " the highest until the last steps.",
    )
    warmup: float = field(
        default=0.0, ge=0, lt=1, description="The share of the steps in which the rate rises."
    )
    warmup_steps: int | None = field(
        default=None, ge=0, description="The steps in which the rate rises, instead of their share."
    )
    floor: float = field(
        default=0.0,
        ge=0,
        lt=1,
        description="The share of the highest rate at which linear, cosine and wsd end; wsd begins there as"
        " well.",
    )
    decay: float | None = field(
        default=None,
        gt=0,
        le=1,
        description="The share of the steps in which wsd falls, at the end; a tenth when not given.",
    )
    weight_decay: float = field(default=0.0, ge=0, description="AdamW's weight decay.")
    clip: float = field(default=1.0, gt=0, description="The largest gradient norm; more is scaled down.")
    micro_batch: int | None = field(
        default=None,
        ge=1,
        description="Sequences in memory at once; the rest of a batch is accumulated. Changes no result"
        " beyond rounding, but for kto, orpo and cpo, where their loss looks across it.",
    )
    precision: Literal["auto", "float32", "bfloat16", "float16"] = field(
        default="auto",
        description="The precision of the arithmetic; the weights keep their own. auto is bfloat16 where"
        " the target has GPUs, and float32 elsewhere.",
    )
    gradient_checkpointing: bool = field(
        default=False,
        description="Compute activations again instead of keeping them: less memory, more time.",
    )
    checkpoint_every: int | None = field(
        default=None,
        ge=1,
        description="Optimizer steps between checkpoints, rounded up to where the method can resume"
        " exactly; a quarter of the run when not given.",
    )
    keep_checkpoints: int = field(default=2, ge=1, description="Complete checkpoints that are kept.")

    def check(self) -> None:
        if self.warmup and self.warmup_steps is not None:
            raise ValueError("warmup and warmup_steps say the same: leave one of them out")
        if self.floor and self.schedule in ("constant", "inverse_sqrt"):
            raise ValueError(
                f"floor has no effect on `schedule: {self.schedule}`; it has on linear, cosine, wsd"
            )
        if self.decay is not None and self.schedule != "wsd":
            raise ValueError(f"decay has no effect on `schedule: {self.schedule}`; it has on wsd")
        if self.decay is not None and self.decay + self.warmup > 1:
            raise ValueError("warmup and decay together are more than all steps")


class TrlParams(TrainingParams):
    """What methods take that stand on TRL."""

    liger: bool = field(
        default=False,
        description="Compute with Liger's kernels, which take less memory; on GPUs alone. They round"
        " otherwise: the last bits of the result are other ones.",
    )
    compile: bool = field(
        default=False,
        description="Compile the model with torch.compile: the first step takes long, the others less. It"
        " rounds otherwise: the last bits of the result are other ones.",
    )


class RowParams(TrlParams):
    """What methods take that go over the rows of a dataset."""

    epochs: float = field(default=1.0, gt=0, description="Passes over the data.")
    steps: int | None = field(default=None, ge=1, description="Optimizer steps, instead of epochs.")
    batch: int = field(default=16, ge=1, description="Rows in an optimizer step.")
    max_length: int = field(
        default=1024,
        ge=8,
        description="The longest sequence in tokens, prompt and completion together; never more than the"
        " model's context. Longer ones are cut at the end.",
    )


class PromptParams(Params):
    """How long methods go on that learn from their own completions: by steps, or over all prompts."""

    steps: int | None = field(default=None, ge=1, description="Optimizer steps; or give epochs.")
    epochs: float | None = field(
        default=None,
        gt=0,
        description="Passes over the prompts, instead of steps; those that fill no whole batch are left out.",
    )

    def counted(self) -> None:
        """Refuse a length that is not given, or given twice."""
        if self.steps is None and self.epochs is None:
            raise ValueError("say how long: `steps`, or `epochs` over the prompts")
        if self.steps is not None and self.epochs is not None:
            raise ValueError("steps and epochs say the same: leave one of them out")

    def length(self, rows: int, at_once: int, each: int) -> int:
        """The optimizer steps, of which each set of `at_once` prompts makes `each`."""
        if rows < at_once:
            raise ValueError(f"{at_once} prompts are wanted at once, and the data has {rows}")
        if self.steps is not None:
            return self.steps
        # A third of thirty is ten: what floats add to it is no step.
        return max(1, math.ceil(round((self.epochs or 1) * (rows // at_once), 6))) * each


class ReferenceParams(Params):
    """What methods take whose reference may move; a frozen one is the rule."""

    reference_every: int | None = field(
        default=None, ge=1, description="Steps after which the reference is pulled towards the model."
    )
    reference_pull: float = field(
        default=0.6, gt=0, le=1, description="How far the reference is pulled: 1 makes it the model."
    )


STACK = ("torch", "transformers", "trl", "peft", "accelerate", "tokenizers", "datasets", "numpy")
# What every stage imports beside its trainer.
HEAVY = ("pyarrow.parquet", "posttrain.runtime.training.loop", "posttrain.runtime.training.rows")
# Off, they are as if there were none of them; on, they change the last bits.
_SWITCHES = ("liger", "compile")
_RATES = ("warmup_steps", "floor", "decay")
# Left out where the steps are counted otherwise.
_COUNTS = ("epochs",)
_NEUTRAL = ("gradient_checkpointing", "checkpoint_every", "keep_checkpoints", "on_flat_reward", "flat_steps")
# An adapter is small and starts at zero: it bears, and wants, about ten times the rate.
ADAPTER_FACTOR = 10.0


def neutral(params: Any, *, across: bool = False) -> tuple[str, ...]:
    """Parameters that change speed, memory, reports or how a run is judged, but not what is learnt.

    The micro-batch is one of them, unless the loss looks across the rows that are in memory together.
    """
    off = tuple(name for name in (*_SWITCHES, *_RATES, *_COUNTS) if not getattr(params, name, False))
    return (*_NEUTRAL, *off) if across else ("micro_batch", *_NEUTRAL, *off)


def learning_rate(params: TrainingParams, adapter: bool) -> float:
    """The rate that the recipe names, or the one that is usual."""
    if params.learning_rate is not None:
        return params.learning_rate
    return params.usual_rate * (ADAPTER_FACTOR if adapter else 1.0)


def row_schedule(params: RowParams, rows: int) -> Schedule:
    """The steps of a method that goes over rows. An epoch's last step takes what is left."""
    divided(params.batch, params.micro_batch)
    steps = params.steps
    if steps is None:
        # The trainer counts the steps of an epoch, the last of which may be smaller, then multiplies.
        steps = max(1, -int(-params.epochs * max(1, -(-rows // params.batch)) // 1))
    risen(params, steps)
    return Schedule(steps=steps, rows_per_step=params.batch)


def risen(params: TrainingParams, steps: int) -> None:
    """Refuse a warm-up that the run does not outlast."""
    if params.warmup_steps and params.warmup_steps >= steps:
        raise ValueError(f"warmup_steps is {params.warmup_steps}, and there are {steps} steps in all")


def whole_batch(params: RowParams, losses: Sequence[str], comparing: Sequence[str]) -> None:
    """Refuse a micro-batch where the loss is one of the whole batch, not a mean over its rows."""
    for loss in losses:
        if loss in comparing and params.micro_batch not in (None, params.batch):
            raise ValueError(
                f"the loss `{loss}` is computed over all rows of a batch together, so micro_batch would"
                " change it: leave micro_batch out"
            )


def row_arguments(params: RowParams, context: int) -> dict[str, Any]:
    """The trainer's arguments for a batch of rows; `context` is the model's longest sequence."""
    return {
        "per_device_train_batch_size": params.micro_batch or params.batch,
        "gradient_accumulation_steps": divided(params.batch, params.micro_batch),
        "max_length": min(params.max_length, context),
    }


def reference_arguments(params: ReferenceParams) -> dict[str, Any]:
    """The trainer's arguments for a reference that moves."""
    if params.reference_every is None:
        return {}
    return {
        "sync_ref_model": True,
        "ref_model_sync_steps": params.reference_every,
        "ref_model_mixup_alpha": params.reference_pull,
    }


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
