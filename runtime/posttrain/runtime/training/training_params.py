"""The parameters that all training methods share, and the arithmetic of their steps."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Params, Schedule

# The schedules that end at `min_lr_ratio` of the highest rate.
_WITH_MINIMUM = ("linear", "cosine", "warmup_stable_decay")


class TrainingParams(Params):
    """What every method that trains by gradient steps takes."""

    # The learning rate for all weights, when the recipe names none; each method has its own.
    default_learning_rate: ClassVar[float] = 2e-5

    learning_rate: float | None = field(
        default=None,
        gt=0,
        description="The highest learning rate; when not given, what is usual for the method (sft 2e-5,"
        " reward_model 1e-5, orpo 8e-6, the others 1e-6), and ten times that for an adapter.",
    )
    lr_scheduler_type: Literal[
        "constant", "constant_with_warmup", "linear", "cosine", "inverse_sqrt", "warmup_stable_decay"
    ] = field(
        default="linear",
        description="The shape of the learning rate over the run. All but constant begin with the warm-up;"
        " warmup_stable_decay holds the highest rate until the final decay.",
    )
    warmup_steps: int | float = field(
        default=0,
        ge=0,
        description="Warm-up, in which the learning rate rises from 0: an integer is optimizer steps, a"
        " decimal below 1 is a share of all steps.",
    )
    min_lr_ratio: float = field(
        default=0.0,
        ge=0,
        lt=1,
        description="The final learning rate of linear, cosine and warmup_stable_decay, as a share of the"
        " highest; warmup_stable_decay also starts its warm-up there.",
    )
    decay_ratio: float | None = field(
        default=None,
        gt=0,
        le=1,
        description="The share of all steps that the final decay of warmup_stable_decay takes. Default: 0.1.",
    )
    weight_decay: float = field(default=0.0, ge=0, description="AdamW's weight decay.")
    max_grad_norm: float = field(
        default=1.0, gt=0, description="The largest gradient norm; more is scaled down."
    )
    micro_batch_size: int | None = field(
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
    save_steps: int | None = field(
        default=None,
        ge=1,
        description="Optimizer steps between checkpoints, rounded up to where the method can resume"
        " exactly; a quarter of the run when not given.",
    )
    save_total_limit: int = field(default=2, ge=1, description="Complete checkpoints that are kept.")

    def check(self) -> None:
        self._check_warmup()
        if self.min_lr_ratio and self.lr_scheduler_type not in _WITH_MINIMUM:
            raise ValueError(
                f"min_lr_ratio has no effect with `lr_scheduler_type: {self.lr_scheduler_type}`; it applies to"
                f" {', '.join(_WITH_MINIMUM)}"
            )
        if self.decay_ratio is not None and self.lr_scheduler_type != "warmup_stable_decay":
            raise ValueError(
                f"decay_ratio has no effect with `lr_scheduler_type: {self.lr_scheduler_type}`; it applies to"
                " warmup_stable_decay"
            )
        if self.decay_ratio is not None and self.warmup_share + self.decay_ratio > 1:
            raise ValueError("warmup_steps and decay_ratio together take more than all steps")

    def _check_warmup(self) -> None:
        if isinstance(self.warmup_steps, float) and self.warmup_steps >= 1:
            raise ValueError(
                f"warmup_steps is {self.warmup_steps:g}: write an integer for steps, or a decimal below 1 for a"
                " share of all steps"
            )
        if self.warmup_steps and self.lr_scheduler_type == "constant":
            raise ValueError(
                "warmup_steps has no effect with `lr_scheduler_type: constant`; write constant_with_warmup"
            )

    @property
    def warmup_share(self) -> float:
        """The share of all steps that the warm-up takes; 0 when it is given in steps."""
        return self.warmup_steps if isinstance(self.warmup_steps, float) else 0.0

    def warmup_length(self, steps: int) -> int:
        """The optimizer steps of the warm-up in a run of `steps` steps."""
        if isinstance(self.warmup_steps, float):
            return math.ceil(self.warmup_steps * steps)
        return self.warmup_steps


class TrlParams(TrainingParams):
    """What methods take that stand on TRL."""

    use_liger_kernel: bool = field(
        default=False,
        description="Compute with Liger's kernels, which take less memory; on GPUs alone. They round"
        " otherwise: the last bits of the result are other ones.",
    )
    torch_compile: bool = field(
        default=False,
        description="Compile the model with torch.compile: the first step takes long, the others less. It"
        " rounds otherwise: the last bits of the result are other ones.",
    )


class RowParams(TrlParams):
    """What methods take that go over the rows of a dataset."""

    epochs: float = field(default=1.0, gt=0, description="Passes over the data.")
    max_steps: int | None = field(default=None, ge=1, description="Optimizer steps, instead of epochs.")
    batch_size: int = field(default=16, ge=1, description="Rows in an optimizer step.")
    max_length: int = field(
        default=1024,
        ge=8,
        description="The longest sequence in tokens, prompt and completion together; never more than the"
        " model's context. Longer ones are cut at the end.",
    )


class PromptParams(Params):
    """How long methods go on that learn from their own completions: by steps, or over all prompts."""

    max_steps: int | None = field(default=None, ge=1, description="Optimizer steps; or give epochs.")
    epochs: float | None = field(
        default=None,
        gt=0,
        description="Passes over the prompts, instead of steps; those that fill no whole batch are left out.",
    )

    def check_length_given(self) -> None:
        """Refuse a length that is not given, or given twice."""
        if self.max_steps is None and self.epochs is None:
            raise ValueError("say how long: `max_steps`, or `epochs` over the prompts")
        if self.max_steps is not None and self.epochs is not None:
            raise ValueError("max_steps and epochs both set the length: remove one")

    def optimizer_steps(self, rows: int, at_once: int, each: int) -> int:
        """The optimizer steps, of which each set of `at_once` prompts makes `each`."""
        if rows < at_once:
            raise ValueError(f"{at_once} prompts are wanted at once, and the data has {rows}")
        if self.max_steps is not None:
            return self.max_steps
        # A third of thirty is ten: what floats add to it is no step.
        return max(1, math.ceil(round((self.epochs or 1) * (rows // at_once), 6))) * each


class ReferenceParams(Params):
    """What methods take whose reference may move; a frozen one is the rule."""

    ref_model_sync_steps: int | None = field(
        default=None, ge=1, description="Steps after which the reference is pulled towards the model."
    )
    ref_model_mixup_alpha: float = field(
        default=0.6, gt=0, le=1, description="How far the reference is pulled: 1 makes it the model."
    )


STACK = ("torch", "transformers", "trl", "peft", "accelerate", "tokenizers", "datasets", "numpy")
# What every stage imports beside its trainer.
HEAVY_IMPORTS = (
    "pyarrow.parquet",
    "posttrain.runtime.training.training_loop",
    "posttrain.runtime.training.trainer_dataset",
)
# Off, they are as if there were none of them; on, they change the last bits.
_KEY_NEUTRAL_WHEN_OFF = ("use_liger_kernel", "torch_compile")
_OPTIONAL_LR_PARAMS = ("warmup_steps", "min_lr_ratio", "decay_ratio")
# Left out where the steps are counted otherwise.
_OPTIONAL_LENGTH_PARAMS = ("epochs",)
_KEY_NEUTRAL_PARAMS = (
    "gradient_checkpointing",
    "save_steps",
    "save_total_limit",
    "on_constant_reward",
    "constant_reward_steps",
)
# An adapter is small and starts at zero: it bears, and wants, about ten times the rate.
ADAPTER_LEARNING_RATE_FACTOR = 10.0


def key_neutral_params(params: Any, *, across: bool = False) -> tuple[str, ...]:
    """Parameters that change speed, memory, reports or how a run is judged, but not what is learnt.

    The micro-batch is one of them, unless the loss looks across the rows that are in memory together.
    """
    off = tuple(
        name
        for name in (*_KEY_NEUTRAL_WHEN_OFF, *_OPTIONAL_LR_PARAMS, *_OPTIONAL_LENGTH_PARAMS)
        if not getattr(params, name, False)
    )
    return (*_KEY_NEUTRAL_PARAMS, *off) if across else ("micro_batch_size", *_KEY_NEUTRAL_PARAMS, *off)


def resolve_learning_rate(params: TrainingParams, adapter: bool) -> float:
    """The rate that the recipe names, or the one that is usual."""
    if params.learning_rate is not None:
        return params.learning_rate
    return params.default_learning_rate * (ADAPTER_LEARNING_RATE_FACTOR if adapter else 1.0)


def row_schedule(params: RowParams, rows: int) -> Schedule:
    """The steps of a method that goes over rows. An epoch's last step takes what is left."""
    accumulation_steps(params.batch_size, params.micro_batch_size)
    steps = params.max_steps
    if steps is None:
        # The trainer counts the steps of an epoch, the last of which may be smaller, then multiplies.
        steps = max(1, -int(-params.epochs * max(1, -(-rows // params.batch_size)) // 1))
    check_warmup(params, steps)
    return Schedule(steps=steps, rows_per_step=params.batch_size)


def check_warmup(params: TrainingParams, steps: int) -> None:
    """Refuse a warm-up that the run does not outlast."""
    if isinstance(params.warmup_steps, int) and params.warmup_steps >= max(steps, 1):
        raise ValueError(f"warmup_steps is {params.warmup_steps}, and there are {steps} steps in all")


def check_batch_loss(params: RowParams, losses: Sequence[str], comparing: Sequence[str]) -> None:
    """Refuse a micro-batch where the loss is one of the whole batch, not a mean over its rows."""
    for loss in losses:
        if loss in comparing and params.micro_batch_size not in (None, params.batch_size):
            raise ValueError(
                f"the loss `{loss}` is computed over all rows of a batch together, so micro_batch_size"
                " would change it: remove micro_batch_size"
            )


def row_arguments(params: RowParams, context: int) -> dict[str, Any]:
    """The trainer's arguments for a batch of rows; `context` is the model's longest sequence."""
    return {
        "per_device_train_batch_size": params.micro_batch_size or params.batch_size,
        "gradient_accumulation_steps": accumulation_steps(params.batch_size, params.micro_batch_size),
        "max_length": min(params.max_length, context),
    }


def reference_arguments(params: ReferenceParams) -> dict[str, Any]:
    """The trainer's arguments for a reference that moves."""
    if params.ref_model_sync_steps is None:
        return {}
    return {
        "sync_ref_model": True,
        "ref_model_sync_steps": params.ref_model_sync_steps,
        "ref_model_mixup_alpha": params.ref_model_mixup_alpha,
    }


def accumulation_steps(batch: int, micro_batch: int | None) -> int:
    """How many micro-batches make a batch."""
    micro = micro_batch or batch
    if batch % micro:
        raise ValueError(f"micro_batch_size ({micro}) does not divide the batch ({batch})")
    return batch // micro


def checkpoint_interval(params: TrainingParams, schedule: Schedule) -> int:
    """Steps between checkpoints: a multiple of the steps after which the method resumes exactly."""
    wanted = params.save_steps or max(1, schedule.steps // 4)
    return -(-wanted // schedule.checkpoint_alignment) * schedule.checkpoint_alignment
