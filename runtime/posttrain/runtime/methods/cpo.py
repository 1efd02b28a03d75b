"""Contrastive preference optimisation: a preference without a reference, beside imitation of the chosen.

TRL keeps it in its experimental part; should a release drop it, this file is where that shows.
"""

from typing import ClassVar, Literal

from posttrain.runtime.context import Context
from posttrain.runtime.training.params import HEAVY, STACK, RowParams, neutral, row_schedule
from posttrain.runtime.training.preferences import PAIRS, experimental, train_on_pairs
from posttrain.spec.declared import field
from posttrain.spec.extension import Footprint, Method
from posttrain.spec.reading import read


class Cpo(RowParams):
    usual_rate: ClassVar[float] = 1e-6

    batch: int = field(default=32, ge=1, description="Pairs in an optimizer step.")
    beta: float = field(default=0.1, gt=0, description="How steep the preference is; tau in its ipo loss.")
    loss: Literal["sigmoid", "hinge", "ipo"] = field(
        default="sigmoid", description="The loss over a pair's margin."
    )
    imitation: float = field(
        default=1.0, ge=0, description="The weight of imitating the chosen completion beside preferring it."
    )
    label_smoothing: float = field(
        default=0.0, ge=0, lt=0.5, description="The share of pairs taken to be the wrong way round."
    )

    def check(self) -> None:
        super().check()
        if self.label_smoothing > 0 and self.loss != "sigmoid":
            raise ValueError("label_smoothing has an effect on the loss `sigmoid` alone")


EXTENSION = Method(
    name="cpo",
    summary="Contrastive preference optimisation on pairs, without a reference.",
    params=Cpo,
    stack=STACK,
    heavy=("trl.experimental.cpo", *HEAVY),
    # Imitation is a mean over the tokens of the rows in memory together.
    neutral=lambda params: neutral(params, across=params.imitation > 0),
    accepts=PAIRS,
    footprint=Footprint(sequences=2),
    schedule=row_schedule,
    trl="CPOConfig",
)


def run(context: Context) -> None:
    trl = experimental("cpo")
    params = read(Cpo, context.params["params"])
    own = {
        "beta": params.beta,
        "loss_type": params.loss,
        "cpo_alpha": params.imitation,
        "label_smoothing": params.label_smoothing,
    }
    train_on_pairs(context, params, row_schedule, trl.CPOTrainer, trl.CPOConfig, own)
