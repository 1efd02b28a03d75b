"""Contrastive preference optimisation: a preference without a reference, beside imitation of the chosen.

TRL keeps it in its experimental part; should a release drop it, this file is where that shows.
"""

from typing import Any, ClassVar, Literal

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


class Cpo(RowParams):
    usual_rate: ClassVar[float] = 1e-6

    batch: int = Field(default=32, ge=1, description="Pairs in an optimizer step.")
    beta: float = Field(default=0.1, gt=0, description="How steep the preference is; tau in its ipo loss.")
    loss: Literal["sigmoid", "hinge", "ipo"] = Field(
        default="sigmoid", description="The loss over a pair's margin."
    )
    imitation: float = Field(
        default=1.0, ge=0, description="The weight of imitating the chosen completion beside preferring it."
    )
    label_smoothing: float = Field(
        default=0.0, ge=0, lt=0.5, description="The share of pairs taken to be the wrong way round."
    )

    def model_post_init(self, _context: Any) -> None:
        if self.label_smoothing > 0 and self.loss != "sigmoid":
            raise ValueError("label_smoothing has an effect on the loss `sigmoid` alone")


EXTENSION = Method(
    name="cpo",
    summary="Contrastive preference optimisation on pairs, without a reference.",
    params=Cpo,
    stack=STACK,
    heavy=("trl.experimental.cpo", "pyarrow.parquet"),
    neutral=NEUTRAL_BUT_MICRO_BATCH,
    accepts=PAIRS,
    footprint=Footprint(sequences=2),
    schedule=row_schedule,
    trl="CPOConfig",
)


def run(context: Context) -> None:
    params = Cpo.model_validate(context.params["params"])
    own = {
        "beta": params.beta,
        "loss_type": params.loss,
        "cpo_alpha": params.imitation,
        "label_smoothing": params.label_smoothing,
    }
    train(context, params, own)


def train(context: Context, params: RowParams, own: dict[str, Any]) -> None:
    """Train with TRL's trainer for this method and for simpo."""
    from posttrain.runtime.models.load import load_for_training
    from posttrain.runtime.training.fitting import context_of
    from posttrain.runtime.training.loop import Loop, planned_for
    from posttrain.runtime.training.rows import PAIR, training_rows

    trl = experimental("cpo")
    start = load_for_training(context)
    data = training_rows(context, start.tokenizer, PAIR)
    loop = Loop(context, params, planned_for(row_schedule, params, len(data)), start)
    own = {**row_arguments(params, context_of(start.model)), **own}
    trainer = trl.CPOTrainer(
        model=start.model,
        args=trl.CPOConfig(**loop.arguments(own)),
        train_dataset=data,
        processing_class=start.tokenizer,
        peft_config=start.adapter,
    )
    loop.run(trainer, data)
