"""What methods share that learn from pairs: a prompt, a chosen completion and a rejected one."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.training_params import RowParams, row_arguments
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import Schedule

# The column sets in which pairs come. Without a prompt, what both begin with is taken for it.
PAIR_COLUMNS: tuple[Columns, ...] = (
    {"prompt": "text", "chosen": "text", "rejected": "text"},
    {"prompt": "messages", "chosen": "messages", "rejected": "messages"},
    {"chosen": "messages", "rejected": "messages"},
)
# Metadata of TRL's experimental methods: the module that each is in.
_EXPERIMENTAL: Mapping[str, str] = {
    "orpo": "trl.experimental.orpo",
    "cpo": "trl.experimental.cpo",
}


def import_experimental(name: str) -> Any:
    """A module of TRL's experimental part, which may lose it from one release to the next."""
    try:
        return import_module(_EXPERIMENTAL[name])
    except ImportError:
        from importlib.metadata import version

        raise StepError(
            f"the installed TRL ({version('trl')}) has no {name} any more",
            "install the release that posttrain is pinned to, or train with dpo",
        ) from None


def train_on_pairs(
    context: StepContext,
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
    from posttrain.runtime.models.model_loader import load_for_training
    from posttrain.runtime.models.peft_adapters import CAUSAL_LM, SEQ_CLS
    from posttrain.runtime.training.reference_model import load_named_reference
    from posttrain.runtime.training.trainer_dataset import training_dataset
    from posttrain.runtime.training.training_loop import TrainingLoop, resolve_schedule
    from posttrain.runtime.training.validate_tokenized import context_length

    start = load_for_training(context, SEQ_CLS if scorer else CAUSAL_LM)
    data = training_dataset(context, start.tokenizer)
    loop = TrainingLoop(context, params, resolve_schedule(schedule, params, len(data)), start)
    given = {"ref_model": load_named_reference(context)} if reference else {}
    own = {**row_arguments(params, context_length(start.model)), **own}
    loop.run(loop.build_trainer(trainer, config, data, own, **given), data)
