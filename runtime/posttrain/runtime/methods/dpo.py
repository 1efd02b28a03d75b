"""Direct preference optimization (DPO): trains the model to prefer chosen over rejected completions.

A reference model limits how far the model moves.
"""

from typing import ClassVar, Literal

from pydantic import Field

from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.preference_training import PAIR_COLUMNS, PAIR_EVAL_METRICS, train_on_pairs
from posttrain.runtime.training.step_arithmetic import check_batch_loss, reference_arguments, row_schedule
from posttrain.runtime.training.training_params import (
    HEAVY_IMPORTS,
    STACK,
    ReferenceParams,
    RowParams,
    key_neutral_params,
)
from posttrain.spec.extension import Footprint, Method, Schedule
from posttrain.spec.field_types import Items
from posttrain.spec.step_params.train_params import TrainStepParams

Loss = Literal[
    "sigmoid",
    "hinge",
    "ipo",
    "exo_pair",
    "nca_pair",
    "robust",
    "bco_pair",
    "sppo_hard",
    "aot",
    "aot_unpaired",
    "apo_zero",
    "apo_down",
    "discopop",
    "sft",
    "sigmoid_norm",
]
# Losses that compare the rows of a batch; with those that average over all of its tokens.
_COMPARING_LOSSES = ("aot", "aot_unpaired")
_BATCH_LEVEL_LOSSES = (*_COMPARING_LOSSES, "sft")
# Losses that use label smoothing.
_LABEL_SMOOTHING_LOSSES = ("exo_pair", "robust", "aot", "aot_unpaired")


class DpoParams(RowParams, ReferenceParams):
    default_learning_rate: ClassVar[float] = 1e-6

    batch_size: int = Field(
        default=32, ge=1, description="The number of pairs in an optimizer step, over all devices."
    )
    beta: float = Field(
        default=0.1,
        gt=0,
        description=(
            "The strength of the constraint to the reference model: a higher value lets the model deviate"
            " less. In the loss ipo it is the regularization parameter tau."
        ),
    )
    loss_type: Loss | Items[Loss] = Field(
        default="sigmoid",
        description=(
            "The loss, or a list of losses that are summed. sigmoid is the loss of the DPO paper; ipo resists"
            " overfitting; robust and exo_pair take label_smoothing for noisy labels; sft adds the"
            " likelihood of the chosen completion."
        ),
    )
    loss_weights: Items[float] | None = Field(
        default=None,
        description="The weight of each loss in loss_type. Default: 1 for every loss.",
    )
    label_smoothing: float = Field(
        default=0.0,
        ge=0,
        lt=0.5,
        description=(
            "The assumed share of pairs whose labels are swapped. Applies to the losses robust (0.1 is"
            " typical), exo_pair (0.001 is typical), aot and aot_unpaired."
        ),
    )

    @property
    def losses(self) -> tuple[Loss, ...]:
        return self.loss_type if isinstance(self.loss_type, tuple) else (self.loss_type,)

    def check(self) -> None:
        super().check()
        if not self.losses:
            raise ValueError("`loss_type` is an empty list")
        if self.loss_weights is not None and len(self.loss_weights) != len(self.losses):
            raise ValueError(
                f"loss_weights has {len(self.loss_weights)} values for {len(self.losses)} losses in loss_type"
            )
        if "exo_pair" in self.losses and self.label_smoothing == 0:
            raise ValueError("the loss `exo_pair` needs label_smoothing above 0, such as 1.0e-3")
        if self.label_smoothing > 0 and not set(self.losses) & set(_LABEL_SMOOTHING_LOSSES):
            raise ValueError(
                "label_smoothing has no effect with this loss; it applies to"
                f" {', '.join(_LABEL_SMOOTHING_LOSSES)}"
            )


def schedule(params: DpoParams, rows: int) -> Schedule:
    check_batch_loss(params, params.losses, _BATCH_LEVEL_LOSSES)
    return row_schedule(params, rows)


EXTENSION = Method(
    name="dpo",
    version=3,
    summary="Direct preference optimization (DPO) and its loss variants, on pairs of chosen and rejected.",
    params=DpoParams,
    stack=STACK,
    preload=("trl.trainer.dpo_trainer", *HEAVY_IMPORTS),
    neutral=key_neutral_params,
    batch_level_loss=lambda params: not set(params.losses).isdisjoint(_BATCH_LEVEL_LOSSES),
    accepts=PAIR_COLUMNS,
    footprint=Footprint(sequences=2, loss="chunked", has_reference_model=lambda _: True),
    eval_metrics=PAIR_EVAL_METRICS,
    batched_evaluation=lambda params: not set(params.losses).isdisjoint(_COMPARING_LOSSES),
    schedule=schedule,
    needs_reference=True,
    trl="DPOConfig",
)


def run(context: StepContext[TrainStepParams]) -> None:
    train(context, read_extension_params(DpoParams, context.params.params))


def train(context: StepContext[TrainStepParams], params: DpoParams) -> None:
    """Train with these parameters. Methods that are one of the DPO losses, such as ipo, also use this."""
    from trl.trainer.dpo_config import DPOConfig
    from trl.trainer.dpo_trainer import DPOTrainer

    own = {
        "beta": params.beta,
        "loss_type": params.losses,
        "loss_weights": params.loss_weights,
        "label_smoothing": params.label_smoothing,
        **reference_arguments(params),
    }
    train_on_pairs(context, params, schedule, DPOTrainer, DPOConfig, own, reference=True)
