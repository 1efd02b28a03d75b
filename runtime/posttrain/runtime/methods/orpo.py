"""Odds-ratio preference optimisation: imitation and preference in one loss, without a reference.

TRL keeps it in its experimental part; should a release drop it, this file is where that shows.
"""

from typing import ClassVar

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


class OrpoParams(RowParams):
    default_learning_rate: ClassVar[float] = 8e-6

    batch_size: int = field(default=32, ge=1, description="Pairs in an optimizer step.")
    beta: float = field(
        default=0.1, gt=0, description="The weight of the preference beside the imitation (lambda)."
    )


EXTENSION = Method(
    name="orpo",
    summary="Odds-ratio preference optimisation on pairs, without a reference.",
    params=OrpoParams,
    stack=STACK,
    preload=("trl.experimental.orpo", *HEAVY_IMPORTS),
    # Imitation is a mean over the tokens of the rows in memory together.
    neutral=lambda params: key_neutral_params(params, across=True),
    accepts=PAIR_COLUMNS,
    footprint=Footprint(sequences=2),
    schedule=row_schedule,
    trl="ORPOConfig",
)


def run(context: StepContext) -> None:
    trl = import_experimental("orpo")
    params = parse_declaration(OrpoParams, context.params["params"])
    own = {"beta": params.beta}
    train_on_pairs(context, params, row_schedule, trl.ORPOTrainer, trl.ORPOConfig, own)
