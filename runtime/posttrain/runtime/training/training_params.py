"""Defines the parameters that training methods share, and derives step counts and trainer arguments."""

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from posttrain.spec.extension import Params
from posttrain.spec.inference import MAX_TOKENS_DESCRIPTION

# The schedules that end at `min_lr_ratio` times the peak learning rate.
_WITH_MINIMUM = ("linear", "cosine", "warmup_stable_decay")


class TrainingParams(Params):
    """Parameters of every gradient-based training method."""

    # The default learning rate for full-weight training. Each method sets its own.
    default_learning_rate: ClassVar[float] = 2e-5

    learning_rate: float | None = Field(
        default=None,
        gt=0,
        description=(
            "The peak learning rate. Default: sft 2e-5, reward_model 1e-5, orpo 8e-6, all other methods"
            " 1e-6; ten times as high with an adapter. Lower it if the loss diverges or becomes NaN."
        ),
    )
    lr_scheduler_type: Literal[
        "constant", "constant_with_warmup", "linear", "cosine", "inverse_sqrt", "warmup_stable_decay"
    ] = Field(
        default="linear",
        description=(
            "The learning rate schedule. All schedules except constant start with the warm-up."
            " warmup_stable_decay then stays at the peak until the final decay (see decay_ratio)."
        ),
    )
    warmup_steps: Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0)] = Field(
        default=0,
        description=(
            "The length of the warm-up, in which the learning rate rises from 0 to its peak. An integer is"
            " a number of optimizer steps. A decimal below 1 is a fraction of all steps. Raise it if the"
            " first steps are unstable."
        ),
    )
    min_lr_ratio: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description=(
            "The final learning rate as a fraction of the peak, for linear, cosine and"
            " warmup_stable_decay. The warm-up of warmup_stable_decay also starts from this value."
        ),
    )
    decay_ratio: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description=(
            "The length of the final decay of warmup_stable_decay, as a fraction of all steps. Default: 0.1."
        ),
    )
    weight_decay: float = Field(
        default=0.0,
        ge=0,
        description="The weight decay coefficient of AdamW. Biases and normalization weights are exempt.",
    )
    max_grad_norm: float = Field(
        default=1.0,
        gt=0,
        description=(
            "The maximum gradient norm for gradient clipping. Larger gradients are scaled down to this norm."
        ),
    )
    micro_batch_size: int | None = Field(
        default=None,
        ge=1,
        description=(
            "The number of rows (completions, for methods that generate) in memory at once on each device."
            " The optimizer step accumulates gradients over the rest of the batch. Default: the largest"
            " size that the memory estimate allows on GPUs, the whole batch on CPUs. It affects memory and"
            " speed, and the result only by rounding. Exceptions, where it is part of the key: dropout, and"
            " kto, orpo and cpo, which compute part of the loss across the micro-batch."
        ),
    )
    precision: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto",
        description=(
            "The precision of computation. The dtype of the stored weights does not change. auto selects"
            " bfloat16 if the target has GPUs, and float32 otherwise."
        ),
    )
    gradient_checkpointing: bool = Field(
        default=False,
        description=(
            "Recompute activations in the backward pass instead of storing them. This saves memory and"
            " costs time."
        ),
    )
    save_steps: int | None = Field(
        default=None,
        ge=1,
        description=(
            "The number of optimizer steps between checkpoints. It is rounded up to a step at which the"
            " method can resume exactly. Default: a quarter of the run. Lower it to lose less work when a"
            " run is interrupted."
        ),
    )
    save_total_limit: int = Field(
        default=2,
        ge=1,
        description=(
            "The maximum number of checkpoints on disk. Older ones are deleted. The checkpoint with the"
            " best weights is retained in addition."
        ),
    )

    def check(self) -> None:
        super().check()
        self._check_warmup()
        if self.min_lr_ratio and self.lr_scheduler_type not in _WITH_MINIMUM:
            raise ValueError(
                f"min_lr_ratio has no effect with `lr_scheduler_type: {self.lr_scheduler_type}`; it applies"
                f" to {', '.join(_WITH_MINIMUM)}"
            )
        if self.decay_ratio is not None and self.lr_scheduler_type != "warmup_stable_decay":
            raise ValueError(
                f"decay_ratio has no effect with `lr_scheduler_type: {self.lr_scheduler_type}`; it applies to"
                " warmup_stable_decay"
            )
        if self.decay_ratio is not None and self.warmup_share + self.decay_ratio > 1:
            raise ValueError(
                "warmup_steps and decay_ratio together exceed 1: the warm-up and the final decay overlap"
            )

    def _check_warmup(self) -> None:
        if isinstance(self.warmup_steps, float) and self.warmup_steps >= 1:
            raise ValueError(
                f"warmup_steps is {self.warmup_steps:g}: write an integer for a number of steps, or a decimal"
                " below 1 for a fraction of all steps"
            )
        if self.warmup_steps and self.lr_scheduler_type == "constant":
            raise ValueError(
                "warmup_steps has no effect with `lr_scheduler_type: constant`; use constant_with_warmup"
            )

    @property
    def warmup_share(self) -> float:
        """The warm-up as a fraction of all steps; 0 if `warmup_steps` is an integer."""
        return self.warmup_steps if isinstance(self.warmup_steps, float) else 0.0

    def warmup_length(self, steps: int) -> int:
        """Return the number of warm-up steps in a run of `steps` optimizer steps."""
        if isinstance(self.warmup_steps, float):
            return math.ceil(self.warmup_steps * steps)
        return self.warmup_steps


class TrlParams(TrainingParams):
    """Parameters of methods that use a TRL trainer."""

    use_liger_kernel: bool = Field(
        default=False,
        description=(
            "Use the Liger kernels, which need less memory. Requires GPUs and the package liger-kernel."
            " The kernels round differently, so results change in the last digits."
        ),
    )
    torch_compile: bool = Field(
        default=False,
        description=(
            "Compile the model with torch.compile. The first step is slow, later steps are faster. Compiled"
            " code rounds differently, so results change in the last digits."
        ),
    )


class RowParams(TrlParams):
    """Parameters of methods that train on the rows of a dataset."""

    epochs: float = Field(
        default=1.0,
        gt=0,
        description="The number of passes over the dataset. Ignored if max_steps is set.",
    )
    max_steps: int | None = Field(
        default=None,
        ge=1,
        description="The number of optimizer steps. Default: computed from epochs.",
    )
    batch_size: int = Field(
        default=16, ge=1, description="The number of rows in an optimizer step, over all devices."
    )
    max_length: int = Field(
        default=1024,
        ge=8,
        description=(
            "The maximum sequence length in tokens, prompt and completion together. Longer sequences are"
            " truncated at the end. It is capped at the model's context length. Lower it to save memory,"
            " raise it if the run warns about truncated rows."
        ),
    )


class PromptParams(Params):
    """Run length of methods that generate their own completions: in steps, or in passes over the prompts."""

    max_steps: int | None = Field(
        default=None,
        ge=1,
        description="The number of optimizer steps. Set either max_steps or epochs.",
    )
    epochs: float | None = Field(
        default=None,
        gt=0,
        description=(
            "The number of passes over the prompts. Set either epochs or max_steps. Prompts that do not fill"
            " a whole batch are left out."
        ),
    )

    def check_length_given(self) -> None:
        """Require exactly one of `max_steps` and `epochs`."""
        if self.max_steps is None and self.epochs is None:
            raise ValueError("the length of the run is missing: set `max_steps` or `epochs`")
        if self.max_steps is not None and self.epochs is not None:
            raise ValueError("max_steps and epochs both set the length of the run: remove one")

    def optimizer_steps(self, rows: int, at_once: int, each: int) -> int:
        """Return the number of optimizer steps: `each` steps for every batch of `at_once` prompts."""
        if rows < at_once:
            raise ValueError(f"a generation batch needs {at_once} prompts, but the dataset has {rows}")
        if self.max_steps is not None:
            return self.max_steps
        # Rounding discards floating-point error: a third of 30 batches is 10, not 11.
        return max(1, math.ceil(round((self.epochs or 1) * (rows // at_once), 6))) * each


class CompletionParams(Params):
    """How methods that train on their own completions sample them."""

    max_completion_length: int = Field(default=256, ge=1, description=MAX_TOKENS_DESCRIPTION)
    temperature: float = Field(
        default=1.0,
        gt=0,
        description=(
            "The sampling temperature. Raise it for more diverse completions; lower it if completions are"
            " incoherent."
        ),
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Sample from the most likely tokens of this total probability; 1 is all tokens.",
    )


class ReferenceParams(Params):
    """Parameters of methods whose reference model can be updated during training."""

    ref_model_sync_steps: int | None = Field(
        default=None,
        ge=1,
        description=(
            "The number of optimizer steps between updates of the reference model towards the trained model"
            " (TR-DPO). Default: the reference stays frozen."
        ),
    )
    ref_model_mixup_alpha: float = Field(
        default=0.6,
        gt=0,
        le=1,
        description=(
            "The weight of the trained model in each update of the reference: reference = alpha * model +"
            " (1 - alpha) * reference. 1 replaces the reference. Requires ref_model_sync_steps."
        ),
    )

    def check(self) -> None:
        super().check()
        if self.ref_model_sync_steps is None:
            self.refuse_without_effect("ref_model_mixup_alpha", "without ref_model_sync_steps")


STACK = ("torch", "transformers", "trl", "peft", "accelerate", "tokenizers", "datasets", "numpy")
# Imports that every training stage needs in addition to its trainer.
HEAVY_IMPORTS = (
    "pyarrow.parquet",
    "posttrain.runtime.training.training_loop",
    "posttrain.runtime.training.trainer_dataset",
)
# Enabled, they change the last digits of a result. Disabled, they must not change the key.
_KEY_NEUTRAL_WHEN_OFF = ("use_liger_kernel", "torch_compile")
_OPTIONAL_LR_PARAMS = ("warmup_steps", "min_lr_ratio", "decay_ratio")
# Left out of the key if `max_steps` sets the length.
_OPTIONAL_LENGTH_PARAMS = ("epochs",)
_KEY_NEUTRAL_PARAMS = (
    "gradient_checkpointing",
    "save_steps",
    "save_total_limit",
    "on_constant_reward",
    "constant_reward_steps",
)


def key_neutral_params(params: Any) -> tuple[str, ...]:
    """Return the parameters that are left out of the cache key: they do not change the trained weights.

    They change speed, memory, reports or failure conditions.
    """
    off = tuple(
        name
        for name in (*_KEY_NEUTRAL_WHEN_OFF, *_OPTIONAL_LR_PARAMS, *_OPTIONAL_LENGTH_PARAMS)
        if not getattr(params, name, False)
    )
    return (*_KEY_NEUTRAL_PARAMS, *off)
