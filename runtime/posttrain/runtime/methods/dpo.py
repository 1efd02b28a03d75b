"""Direct preference optimisation: the model learns to prefer what was chosen, held to a reference."""

from typing import ClassVar, Literal

from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.preference_training import PAIR_COLUMNS, train_on_pairs
from posttrain.runtime.training.training_params import (
    HEAVY_IMPORTS,
    STACK,
    ReferenceParams,
    RowParams,
    check_batch_loss,
    key_neutral_params,
    reference_arguments,
    row_schedule,
)
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Footprint, Method, Schedule
from posttrain.spec.validation import parse_declaration

Loss = Literal[
    "sigmoid",
    "hinge",
    "ipo",
    "exo_pair",
    "nca_pair",
    "robust",
    "bco_pair",
    "sppo_hard",
    "aot",
    "aot_unpaired",
    "apo_zero",
    "apo_down",
    "discopop",
    "sft",
    "sigmoid_norm",
]
# Losses that compare the rows of a batch, or count its tokens together.
_BATCH_LEVEL_LOSSES = ("aot", "aot_unpaired", "sft")
# Losses that are built on smoothed labels, and those that have no place for them.
_LABEL_SMOOTHING_LOSSES = ("exo_pair", "robust", "aot", "aot_unpaired")


class DpoParams(RowParams, ReferenceParams):
    default_learning_rate: ClassVar[float] = 1e-6

    batch_size: int = field(default=32, ge=1, description="Pairs in an optimizer step.")
    beta: float = field(
        default=0.1, gt=0, description="How tightly the model is held to the reference; tau in IPO."
    )
    loss_type: Loss | list[Loss] = field(
        default="sigmoid", description="The loss over a pair's margin, or several that are summed."
    )
    loss_weights: list[float] | None = field(
        default=None, description="A weight for each of several losses; 1 when not given."
    )
    label_smoothing: float = field(
        default=0.0,
        ge=0,
        lt=0.5,
        description="The share of pairs taken to be the wrong way round; for robust, exo_pair and aot.",
    )

    @property
    def losses(self) -> list[Loss]:
        return self.loss_type if isinstance(self.loss_type, list) else [self.loss_type]

    def check(self) -> None:
        super().check()
        if not self.losses:
            raise ValueError("`loss_type` names no loss")
        if self.loss_weights is not None and len(self.loss_weights) != len(self.losses):
            raise ValueError(f"{len(self.loss_weights)} loss_weights stand beside {len(self.losses)} losses")
        if "exo_pair" in self.losses and self.label_smoothing == 0:
            raise ValueError("the loss `exo_pair` needs label_smoothing above 0, such as 1.0e-3")
        if self.label_smoothing > 0 and not set(self.losses) & set(_LABEL_SMOOTHING_LOSSES):
            raise ValueError(
                f"label_smoothing has no effect on this loss; it has on {', '.join(_LABEL_SMOOTHING_LOSSES)}"
            )


def schedule(params: DpoParams, rows: int) -> Schedule:
    check_batch_loss(params, params.losses, _BATCH_LEVEL_LOSSES)
    return row_schedule(params, rows)


EXTENSION = Method(
    name="dpo",
    summary="Direct preference optimisation on pairs, with the losses of its family.",
    params=DpoParams,
    stack=STACK,
    preload=("trl.trainer.dpo_trainer", *HEAVY_IMPORTS),
    neutral=key_neutral_params,
    accepts=PAIR_COLUMNS,
    footprint=Footprint(sequences=2, loss="chunked", has_reference_model=lambda _: True),
    schedule=schedule,
    needs_reference=True,
    trl="DPOConfig",
)


def run(context: StepContext) -> None:
    train(context, parse_declaration(DpoParams, context.params["params"]))


def train(context: StepContext, params: DpoParams) -> None:
    """Train with these parameters; other names for some of the losses come here too."""
    from trl.trainer.dpo_config import DPOConfig
    from trl.trainer.dpo_trainer import DPOTrainer

    own = {
        "beta": params.beta,
        "loss_type": params.losses,
        "loss_weights": params.loss_weights,
        "label_smoothing": params.label_smoothing,
        **reference_arguments(params),
    }
    train_on_pairs(context, params, schedule, DPOTrainer, DPOConfig, own, reference=True)
