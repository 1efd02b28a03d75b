"""Simple preference optimisation: the mean log-probability of a completion is its reward; no reference."""

from typing import ClassVar

from posttrain.runtime.context import Context
from posttrain.runtime.training.params import HEAVY, STACK, RowParams, neutral, row_schedule
from posttrain.runtime.training.preferences import PAIRS, experimental, train_on_pairs
from posttrain.spec.declared import field
from posttrain.spec.extension import Footprint, Method
from posttrain.spec.reading import read


class Simpo(RowParams):
    usual_rate: ClassVar[float] = 1e-6

    batch: int = field(default=32, ge=1, description="Pairs in an optimizer step.")
    beta: float = field(default=2.0, gt=0, description="How steep the preference is.")
    margin: float = field(
        default=1.0, ge=0, description="The margin by which the chosen completion is to win (gamma)."
    )


EXTENSION = Method(
    name="simpo",
    summary="Simple preference optimisation on pairs, without a reference.",
    params=Simpo,
    stack=STACK,
    heavy=("trl.experimental.cpo", *HEAVY),
    neutral=neutral,
    accepts=PAIRS,
    footprint=Footprint(sequences=2),
    schedule=row_schedule,
    trl="CPOConfig",
)


def run(context: Context) -> None:
    trl = experimental("cpo")
    params = read(Simpo, context.params["params"])
    # TRL's CPO trainer turns into SimPO with this loss and without its imitation.
    own = {"beta": params.beta, "loss_type": "simpo", "cpo_alpha": 0.0, "simpo_gamma": params.margin}
    train_on_pairs(context, params, row_schedule, trl.CPOTrainer, trl.CPOConfig, own)
