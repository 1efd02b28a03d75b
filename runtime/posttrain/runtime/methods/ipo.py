"""Identity preference optimisation: dpo with the loss that cannot run away with a clear preference."""

from typing import ClassVar

from posttrain.runtime.context import Context
from posttrain.runtime.methods.dpo import Dpo, train
from posttrain.runtime.training.params import HEAVY, STACK, ReferenceParams, RowParams, neutral, row_schedule
from posttrain.runtime.training.preferences import PAIRS
from posttrain.spec.declared import field
from posttrain.spec.extension import Footprint, Method
from posttrain.spec.reading import read


class Ipo(RowParams, ReferenceParams):
    usual_rate: ClassVar[float] = 1e-6

    batch: int = field(default=32, ge=1, description="Pairs in an optimizer step.")
    beta: float = field(
        default=0.1, gt=0, description="How tightly the model is held to the reference (tau in the paper)."
    )


EXTENSION = Method(
    name="ipo",
    summary="Identity preference optimisation on pairs.",
    params=Ipo,
    stack=STACK,
    heavy=("trl.trainer.dpo_trainer", *HEAVY),
    neutral=neutral,
    accepts=PAIRS,
    footprint=Footprint(sequences=2, loss="chunked", reference=lambda _: True),
    schedule=row_schedule,
    needs_reference=True,
    trl="DPOConfig",
)


def run(context: Context) -> None:
    train(context, read(Dpo, {**context.params["params"], "loss": "ipo"}))
