"""Kahneman-Tversky optimisation: the model learns from completions that are wanted or not, unpaired."""

from typing import Any, ClassVar, Literal

from posttrain.runtime.context import Context
from posttrain.runtime.training.params import (
    HEAVY,
    STACK,
    ReferenceParams,
    RowParams,
    neutral,
    reference_arguments,
    row_arguments,
    row_schedule,
)
from posttrain.spec.declared import field
from posttrain.spec.extension import Footprint, Method, Schedule
from posttrain.spec.reading import read


class Kto(RowParams, ReferenceParams):
    usual_rate: ClassVar[float] = 1e-6

    batch: int = field(
        default=32, ge=1, description="Rows in an optimizer step; a row with a pair gives two completions."
    )
    beta: float = field(default=0.1, gt=0, description="How tightly the model is held to the reference.")
    loss: Literal["kto", "apo_zero_unpaired"] = field(
        default="kto", description="The loss; apo_zero_unpaired does without the estimate of the KL."
    )
    wanted_weight: float = field(default=1.0, gt=0, description="The weight of completions that are wanted.")
    unwanted_weight: float = field(
        default=1.0, gt=0, description="The weight of completions that are not wanted."
    )


def schedule(params: Kto, rows: int) -> Schedule:
    planned = row_schedule(params, rows)
    if params.loss == "kto" and (params.micro_batch or params.batch) < 2:
        raise ValueError(
            "kto estimates the KL by comparing the rows in memory together: it needs 2 of them at least"
        )
    return planned


EXTENSION = Method(
    name="kto",
    summary="Kahneman-Tversky optimisation on labelled completions, or on pairs taken apart.",
    params=Kto,
    stack=STACK,
    heavy=("trl.trainer.kto_trainer", *HEAVY),
    neutral=lambda params: neutral(params, across=params.loss == "kto"),
    accepts=(
        {"prompt": "text", "chosen": "text", "rejected": "text"},
        {"prompt": "messages", "chosen": "messages", "rejected": "messages"},
        {"prompt": "text", "completion": "text", "label": "boolean"},
        {"prompt": "messages", "completion": "messages", "label": "boolean"},
    ),
    footprint=Footprint(loss="chunked", reference=lambda _: True),
    schedule=schedule,
    needs_reference=True,
    trl="KTOConfig",
)


def run(context: Context) -> None:
    from trl.trainer.kto_config import KTOConfig
    from trl.trainer.kto_trainer import KTOTrainer

    from posttrain.runtime.models.load import load_for_training
    from posttrain.runtime.training.fitting import context_of
    from posttrain.runtime.training.loop import Loop, planned_for
    from posttrain.runtime.training.reference import named_reference
    from posttrain.runtime.training.rows import labelled, paired, prepared_rows, table

    params = read(Kto, context.params["params"])
    start = load_for_training(context)
    rows, columns = prepared_rows(context, start.tokenizer)
    rows = [{name: row[name] for name in columns} for row in rows]
    data = table(labelled(rows, context.params["seed"]), ("prompt", "completion", "label"))
    loop = Loop(context, params, planned_for(schedule, params, len(rows)), start)
    own: dict[str, Any] = {
        **row_arguments(params, context_of(start.model)),
        "per_device_train_batch_size": (params.micro_batch or params.batch) * (2 if paired(rows) else 1),
        "beta": params.beta,
        "loss_type": params.loss,
        "desirable_weight": params.wanted_weight,
        "undesirable_weight": params.unwanted_weight,
        **reference_arguments(params),
    }
    reference = named_reference(context)
    loop.run(loop.made(KTOTrainer, KTOConfig, data, own, ref_model=reference), data)
