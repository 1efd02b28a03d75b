"""Odds-ratio preference optimisation: imitation and preference in one loss, without a reference.

TRL keeps it in its experimental part; should a release drop it, this file is where that shows.
"""

from typing import Any, ClassVar

from pydantic import Field

from posttrain.runtime.context import Context
from posttrain.runtime.training.params import (
    NEUTRAL_BUT_MICRO_BATCH,
    STACK,
    RowParams,
    row_arguments,
    row_schedule,
)
from posttrain.runtime.training.preferences import PAIRS, experimental
from posttrain.spec.extension import Footprint, Method


class Orpo(RowParams):
    usual_rate: ClassVar[float] = 8e-6

    batch: int = Field(default=32, ge=1, description="Pairs in an optimizer step.")
    beta: float = Field(
        default=0.1, gt=0, description="The weight of the preference beside the imitation (lambda)."
    )


EXTENSION = Method(
    name="orpo",
    summary="Odds-ratio preference optimisation on pairs, without a reference.",
    params=Orpo,
    stack=STACK,
    heavy=("trl.experimental.orpo", "pyarrow.parquet"),
    neutral=NEUTRAL_BUT_MICRO_BATCH,
    accepts=PAIRS,
    footprint=Footprint(sequences=2),
    schedule=row_schedule,
    trl="ORPOConfig",
)


def run(context: Context) -> None:
    from posttrain.runtime.models.load import load_for_training
    from posttrain.runtime.training.fitting import context_of
    from posttrain.runtime.training.loop import Loop, planned_for
    from posttrain.runtime.training.rows import PAIR, training_rows

    trl = experimental("orpo")
    params = Orpo.model_validate(context.params["params"])
    start = load_for_training(context)
    data = training_rows(context, start.tokenizer, PAIR)
    loop = Loop(context, params, planned_for(row_schedule, params, len(data)), start)
    own: dict[str, Any] = {**row_arguments(params, context_of(start.model)), "beta": params.beta}
    trainer = trl.ORPOTrainer(
        model=start.model,
        args=trl.ORPOConfig(**loop.arguments(own)),
        train_dataset=data,
        processing_class=start.tokenizer,
        peft_config=start.adapter,
    )
    loop.run(trainer, data)
