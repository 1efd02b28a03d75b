"""What methods share that learn from pairs: a prompt, a chosen completion and a rejected one."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.faults import StepFault
from posttrain.runtime.training.params import RowParams, row_arguments
from posttrain.spec.extension import Schedule
from posttrain.spec.types import Columns

# The column sets in which pairs come. Without a prompt, what both begin with is taken for it.
PAIRS: tuple[Columns, ...] = (
    {"prompt": "text", "chosen": "text", "rejected": "text"},
    {"prompt": "messages", "chosen": "messages", "rejected": "messages"},
    {"chosen": "messages", "rejected": "messages"},
)
# Metadata of TRL's experimental methods: the module that each is in.
_EXPERIMENTAL: Mapping[str, str] = {
    "orpo": "trl.experimental.orpo",
    "cpo": "trl.experimental.cpo",
}


def experimental(name: str) -> Any:
    """A module of TRL's experimental part, which may lose it from one release to the next."""
    try:
        return import_module(_EXPERIMENTAL[name])
    except ImportError:
        from importlib.metadata import version

        raise StepFault(
            f"the installed TRL ({version('trl')}) has no {name} any more",
            "install the release that posttrain is pinned to, or train with dpo",
        ) from None


def train_on_pairs(
    context: Context,
    params: RowParams,
    schedule: Callable[[Any, int], Schedule],
    trainer: Any,
    config: Any,
    own: Mapping[str, Any],
    *,
    scorer: bool = False,
    reference: bool = False,
) -> None:
    """Train with this trainer of TRL's and its configuration; `own` are the method's arguments.

    `scorer` gives the model a head that scores, `reference` the trainer the model that is compared with.
    """
    from posttrain.runtime.models.adapters import SCORER, WRITER
    from posttrain.runtime.models.load import load_for_training
    from posttrain.runtime.training.fitting import context_of
    from posttrain.runtime.training.loop import Loop, planned_for
    from posttrain.runtime.training.reference import named_reference
    from posttrain.runtime.training.rows import training_rows

    start = load_for_training(context, SCORER if scorer else WRITER)
    data = training_rows(context, start.tokenizer)
    loop = Loop(context, params, planned_for(schedule, params, len(data)), start)
    given = {"ref_model": named_reference(context)} if reference else {}
    own = {**row_arguments(params, context_of(start.model)), **own}
    loop.run(loop.made(trainer, config, data, own, **given), data)
