"""A reward model: it learns to score what was chosen above what was rejected. Its product is a scorer."""

from typing import Any, ClassVar

from pydantic import Field

from posttrain.runtime.context import Context
from posttrain.runtime.training.params import NEUTRAL, STACK, RowParams, row_arguments, row_schedule
from posttrain.runtime.training.preferences import PAIRS
from posttrain.spec.extension import Footprint, Method


class RewardModel(RowParams):
    usual_rate: ClassVar[float] = 1e-5

    batch: int = Field(default=32, ge=1, description="Pairs in an optimizer step.")
    centre: float | None = Field(
        default=None, ge=0, description="The weight of a term that keeps scores around zero, such as 0.01."
    )


EXTENSION = Method(
    name="reward_model",
    summary="A scorer trained on pairs.",
    params=RewardModel,
    stack=STACK,
    heavy=("trl.trainer.reward_trainer", "pyarrow.parquet"),
    neutral=NEUTRAL,
    accepts=PAIRS,
    footprint=Footprint(sequences=2, loss="scores"),
    schedule=row_schedule,
    trl="RewardConfig",
    product="scorer",
)


def run(context: Context) -> None:
    from trl.trainer.reward_config import RewardConfig
    from trl.trainer.reward_trainer import RewardTrainer

    from posttrain.runtime.models.adapters import SCORER
    from posttrain.runtime.models.load import load_for_training
    from posttrain.runtime.training.fitting import context_of
    from posttrain.runtime.training.loop import Loop, planned_for
    from posttrain.runtime.training.rows import PAIR, training_rows

    params = RewardModel.model_validate(context.params["params"])
    start = load_for_training(context, SCORER)
    data = training_rows(context, start.tokenizer, PAIR)
    loop = Loop(context, params, planned_for(row_schedule, params, len(data)), start)
    own: dict[str, Any] = {
        **row_arguments(params, context_of(start.model)),
        "center_rewards_coefficient": params.centre,
    }
    trainer = RewardTrainer(
        model=start.model,
        args=RewardConfig(**loop.arguments(own)),
        train_dataset=data,
        processing_class=start.tokenizer,
        peft_config=start.adapter,
    )
    loop.run(trainer, data)
