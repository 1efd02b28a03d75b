"""A reward model: it learns to score what was chosen above what was rejected. Its product is a scorer."""

from typing import ClassVar

from posttrain.runtime.context import Context
from posttrain.runtime.training.params import HEAVY, STACK, RowParams, neutral, row_schedule
from posttrain.runtime.training.preferences import PAIRS, train_on_pairs
from posttrain.spec.declared import field
from posttrain.spec.extension import Footprint, Method
from posttrain.spec.reading import read


class RewardModel(RowParams):
    usual_rate: ClassVar[float] = 1e-5

    batch: int = field(default=32, ge=1, description="Pairs in an optimizer step.")
    centre: float | None = field(
        default=None, ge=0, description="The weight of a term that keeps scores around zero, such as 0.01."
    )


EXTENSION = Method(
    name="reward_model",
    summary="A scorer trained on pairs.",
    params=RewardModel,
    stack=STACK,
    heavy=("trl.trainer.reward_trainer", *HEAVY),
    neutral=neutral,
    accepts=PAIRS,
    footprint=Footprint(sequences=2, loss="scores"),
    schedule=row_schedule,
    trl="RewardConfig",
    product="scorer",
)


def run(context: Context) -> None:
    from trl.trainer.reward_config import RewardConfig
    from trl.trainer.reward_trainer import RewardTrainer

    params = read(RewardModel, context.params["params"])
    own = {"center_rewards_coefficient": params.centre}
    train_on_pairs(context, params, row_schedule, RewardTrainer, RewardConfig, own, scorer=True)
