"""Contrastive preference optimisation: a preference without a reference, beside imitation of the chosen.

TRL keeps it in its experimental part; should a release drop it, this file is where that shows.
"""

from typing import ClassVar, Literal

from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.preference_training import PAIR_COLUMNS, import_experimental, train_on_pairs
from posttrain.runtime.training.training_params import (
    HEAVY_IMPORTS,
    STACK,
    RowParams,
    key_neutral_params,
    row_schedule,
)
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Footprint, Method
from posttrain.spec.validation import parse_declaration


class CpoParams(RowParams):
    default_learning_rate: ClassVar[float] = 1e-6

    batch_size: int = field(default=32, ge=1, description="Pairs in an optimizer step.")
    beta: float = field(default=0.1, gt=0, description="How steep the preference is; tau in its ipo loss.")
    loss_type: Literal["sigmoid", "hinge", "ipo"] = field(
        default="sigmoid", description="The loss over a pair's margin."
    )
    cpo_alpha: float = field(
        default=1.0, ge=0, description="The weight of imitating the chosen completion beside preferring it."
    )
    label_smoothing: float = field(
        default=0.0, ge=0, lt=0.5, description="The share of pairs taken to be the wrong way round."
    )

    def check(self) -> None:
        super().check()
        if self.label_smoothing > 0 and self.loss_type != "sigmoid":
            raise ValueError("label_smoothing has an effect on the loss `sigmoid` alone")


EXTENSION = Method(
    name="cpo",
    summary="Contrastive preference optimisation on pairs, without a reference.",
    params=CpoParams,
    stack=STACK,
    preload=("trl.experimental.cpo", *HEAVY_IMPORTS),
    # Imitation is a mean over the tokens of the rows in memory together.
    neutral=lambda params: key_neutral_params(params, across=params.imitation > 0),
    accepts=PAIR_COLUMNS,
    footprint=Footprint(sequences=2),
    schedule=row_schedule,
    trl="CPOConfig",
)


def run(context: StepContext) -> None:
    trl = import_experimental("cpo")
    params = parse_declaration(CpoParams, context.params["params"])
    own = {
        "beta": params.beta,
        "loss_type": params.loss_type,
        "cpo_alpha": params.cpo_alpha,
        "label_smoothing": params.label_smoothing,
    }
    train_on_pairs(context, params, row_schedule, trl.CPOTrainer, trl.CPOConfig, own)
