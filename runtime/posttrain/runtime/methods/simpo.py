"""Simple preference optimisation: the mean log-probability of a completion is its reward; no reference."""

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


class SimpoParams(RowParams):
    default_learning_rate: ClassVar[float] = 1e-6

    batch_size: int = field(default=32, ge=1, description="Pairs in an optimizer step.")
    beta: float = field(default=2.0, gt=0, description="How steep the preference is.")
    simpo_gamma: float = field(
        default=1.0, ge=0, description="The margin by which the chosen completion is to win (gamma)."
    )


EXTENSION = Method(
    name="simpo",
    summary="Simple preference optimisation on pairs, without a reference.",
    params=SimpoParams,
    stack=STACK,
    preload=("trl.experimental.cpo", *HEAVY_IMPORTS),
    neutral=key_neutral_params,
    accepts=PAIR_COLUMNS,
    footprint=Footprint(sequences=2),
    schedule=row_schedule,
    trl="CPOConfig",
)


def run(context: StepContext) -> None:
    trl = import_experimental("cpo")
    params = parse_declaration(SimpoParams, context.params["params"])
    # TRL's CPO trainer turns into SimPO with this loss and without its imitation.
    own = {"beta": params.beta, "loss_type": "simpo", "cpo_alpha": 0.0, "simpo_gamma": params.simpo_gamma}
    train_on_pairs(context, params, row_schedule, trl.CPOTrainer, trl.CPOConfig, own)
