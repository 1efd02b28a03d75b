"""Contrastive preference optimization (CPO): preference training plus SFT on the chosen completion, without a
reference model.

The trainer is experimental in TRL and may disappear in a later release.
"""

from typing import ClassVar, Literal

from pydantic import Field

from posttrain.runtime.plan_params import read_extension_params
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.preference_training import (
    PAIR_COLUMNS,
    PAIR_EVAL_METRICS,
    import_experimental,
    train_on_pairs,
)
from posttrain.runtime.training.step_arithmetic import row_schedule
from posttrain.runtime.training.training_params import HEAVY_IMPORTS, STACK, RowParams, key_neutral_params
from posttrain.spec.extension import Footprint, Method
from posttrain.spec.step_params.train_params import TrainStepParams


class CpoParams(RowParams):
    default_learning_rate: ClassVar[float] = 1e-6

    batch_size: int = Field(
        default=32, ge=1, description="The number of pairs in an optimizer step, over all devices."
    )
    beta: float = Field(
        default=0.1,
        gt=0,
        description=(
            "The scale of the log-probability difference between chosen and rejected in the preference loss."
            " In the loss ipo it is the regularization parameter tau."
        ),
    )
    loss_type: Literal["sigmoid", "hinge", "ipo"] = Field(
        default="sigmoid",
        description="The preference loss. sigmoid is the loss of the CPO paper.",
    )
    cpo_alpha: float = Field(
        default=1.0,
        ge=0,
        description="The weight of the SFT loss on the chosen completion. 0 turns it off.",
    )
    label_smoothing: float = Field(
        default=0.0,
        ge=0,
        lt=0.5,
        description="The assumed share of pairs whose labels are swapped. Applies to the loss sigmoid.",
    )

    def check(self) -> None:
        super().check()
        if self.label_smoothing > 0 and self.loss_type != "sigmoid":
            raise ValueError(
                f"label_smoothing has no effect with `loss_type: {self.loss_type}`; it applies to sigmoid"
            )


EXTENSION = Method(
    name="cpo",
    version=5,
    summary="Contrastive preference optimization (CPO), on pairs, without a reference model.",
    params=CpoParams,
    stack=STACK,
    preload=("trl.experimental.cpo", *HEAVY_IMPORTS),
    neutral=key_neutral_params,
    # The SFT loss is a mean over the tokens of the micro-batch.
    batch_level_loss=lambda params: params.cpo_alpha > 0,
    accepts=PAIR_COLUMNS,
    footprint=Footprint(sequences=2),
    eval_metrics=PAIR_EVAL_METRICS,
    schedule=row_schedule,
    trl="CPOConfig",
)


def run(context: StepContext[TrainStepParams]) -> None:
    trl = import_experimental("cpo")
    params = read_extension_params(CpoParams, context.params.params)
    own = {
        "beta": params.beta,
        "loss_type": params.loss_type,
        "cpo_alpha": params.cpo_alpha,
        "label_smoothing": params.label_smoothing,
    }
    train_on_pairs(context, params, row_schedule, trl.CPOTrainer, trl.CPOConfig, own)
