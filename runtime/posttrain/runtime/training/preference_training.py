"""The shared training entry of methods on pairs: a prompt, a chosen and a rejected completion."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.training.row_preparation import PreparedRows
from posttrain.runtime.training.step_arithmetic import row_arguments
from posttrain.runtime.training.training_params import RowParams
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import EvalMetric, Schedule
from posttrain.spec.step_params.train_params import TrainStepParams

# The accepted column sets of pairs. Without a `prompt`, the shared first turns are the prompt.
PAIR_COLUMNS: tuple[Columns, ...] = (
    {"prompt": "text", "chosen": "text", "rejected": "text"},
    {"prompt": "messages", "chosen": "messages", "rejected": "messages"},
    {"chosen": "messages", "rejected": "messages"},
)
PAIR_EVAL_METRICS: tuple[EvalMetric, ...] = (
    EvalMetric("eval_loss", lower_is_better=True),
    EvalMetric("eval_rewards/accuracies", "rate"),
    EvalMetric("eval_rewards/margins"),
    EvalMetric("eval_rewards/chosen"),
    EvalMetric("eval_rewards/rejected"),
)
# The modules of TRL's experimental methods.
_EXPERIMENTAL: Mapping[str, str] = {
    "orpo": "trl.experimental.orpo",
    "cpo": "trl.experimental.cpo",
}


def import_experimental(name: str) -> Any:
    """Import a module of `trl.experimental`, which any release of TRL may remove."""
    try:
        return import_module(_EXPERIMENTAL[name])
    except ImportError:
        from importlib.metadata import version

        raise StepError(
            f"the installed TRL ({version('trl')}) does not contain {name}",
            "install the TRL release that posttrain is pinned to, or train with dpo",
        ) from None


def train_on_pairs(
    context: StepContext[TrainStepParams],
    params: RowParams,
    schedule: Callable[[Any, int], Schedule],
    trainer: Any,
    config: Any,
    own: Mapping[str, Any],
    *,
    scorer: bool = False,
    reference: bool = False,
) -> None:
    """Train with a TRL trainer and its configuration class; `own` holds the arguments of the method.

    `scorer` loads the model with a scoring head. `reference` passes the named reference model to the trainer.
    """
    from posttrain.runtime.models.model_loader import load_for_training
    from posttrain.runtime.models.peft_adapters import CAUSAL_LM, SEQ_CLS
    from posttrain.runtime.training.reference_model import load_named_reference
    from posttrain.runtime.training.row_tokenization import tokenizer_key
    from posttrain.runtime.training.trainer_dataset import held_out_rows, training_rows
    from posttrain.runtime.training.training_loop import TrainingLoop, resolve_schedule
    from posttrain.runtime.training.validate_tokenized import context_length
    from posttrain.runtime.trl_compat.pair_tokenization import UntokenizedPairs, pair_tokenizing_trainer

    start = load_for_training(context, SEQ_CLS if scorer else CAUSAL_LM)
    rows = training_rows(context, start.tokenizer)
    held_out = held_out_rows(context, start.tokenizer, rows)
    loop = TrainingLoop(context, params, resolve_schedule(schedule, params, len(rows)), start)
    tokenize: Callable[[PreparedRows, str, Any], Any] | None = None
    if hasattr(trainer, "tokenize_row"):  # an experimental trainer
        trainer = pair_tokenizing_trainer(trainer, rendered=not isinstance(rows.data[0]["chosen"], str))
        key = tokenizer_key(start.tokenizer)

        def as_pairs(rows: PreparedRows, name: str, args: Any) -> Any:
            return UntokenizedPairs(rows, start.tokenizer, key, context.stop)

        tokenize = as_pairs
    else:
        trainer = tokenizing_trainer(trainer, context, start.tokenizer, rows, held_out)
    references = {"ref_model": load_named_reference(context)} if reference else {}
    own = {**row_arguments(params, context_length(start.model)), **own}
    loop.run(loop.build_trainer(trainer, config, rows, own, held_out, tokenize, **references), rows)


def tokenizing_trainer(
    trainer: Any, context: StepContext, tokenizer: Any, rows: PreparedRows, held_out: PreparedRows | None
) -> Any:
    """A subclass of a TRL trainer that tokenizes these rows in batches and several processes."""
    from posttrain.runtime.training.row_tokenization import tokenizer_key
    from posttrain.runtime.trl_compat.batched_preparation import EVAL, TRAIN, batched_preparation_trainer

    prepared = {TRAIN: rows, EVAL: held_out}
    return batched_preparation_trainer(trainer, prepared, tokenizer_key(tokenizer), context.stop)
