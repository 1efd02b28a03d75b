"""Checks the tokenized rows, the prompts, and that tokenizer and model match, before the first step."""

from collections.abc import Iterable, Iterator
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.models.context_length import context_length
from posttrain.runtime.prompt_tokenization import tokenize_prompts
from posttrain.runtime.training.anomaly_monitor import AnomalyMonitor
from posttrain.runtime.training.row_statistics import RowStatistics
from posttrain.runtime.training.validate_rows import row_warnings
from posttrain.runtime.trl_compat.unlabeled_rows import drop_unlabeled_rows, labeled_rows

# The columns of tokens in the trainers' datasets: trained on, completions only, and already truncated.
_TARGET_ID_COLUMNS = ("input_ids", "chosen_ids", "chosen_input_ids", "completion_ids")
_COMPLETION_ID_COLUMNS = ("chosen_ids", "rejected_ids", "completion_ids")
_TRUNCATED_ID_COLUMNS = ("input_ids", "chosen_input_ids", "rejected_input_ids")
_ID_COLUMNS = (*_TARGET_ID_COLUMNS, "prompt_ids", "prompt_input_ids", "rejected_ids", "rejected_input_ids")
_SAMPLED_ROWS = 256  # rows that are checked for an end token
_BATCH_ROWS = 10_000
_NO_LIMIT = 1 << 30


def check_tokenizer(model: Any, tokenizer: Any, monitor: AnomalyMonitor) -> None:
    """Check the tokenizer's vocabulary, end token and padding token, and its size against the model."""
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise StepError(
            "the tokenizer's vocabulary is empty: its files are missing, or belong to another model",
            "put tokenizer.json in the folder of the model's weights, or set `tokenizer` for the model",
        )
    if tokenizer.eos_token_id is None:
        raise StepError(
            "the tokenizer has no end token, so the model cannot learn to stop",
            "use a tokenizer with an eos_token",
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
        monitor.warn_once(
            f"the tokenizer has no padding token: the end token {tokenizer.eos_token!r} is used for padding",
            "use a tokenizer with a pad_token",
        )
    rows = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > rows:
        raise StepError(
            f"the tokenizer has {len(tokenizer)} tokens, but the model's embedding has {rows}",
            "use the tokenizer of the model",
        )


def validate_tokenized_rows(trainer: Any, rows: RowStatistics, monitor: AnomalyMonitor) -> None:
    """Warn about suspicious, dropped and truncated rows, unknown tokens and missing end tokens.

    `rows` are the statistics of the rows before tokenization.
    """
    total = rows.rows
    for warning in row_warnings(rows):
        monitor.warn_once(*warning)
    drop_unlabeled_rows(trainer)
    data = trainer.train_dataset
    limit = getattr(trainer.args, "max_length", None) or _NO_LIMIT
    check_tokens_left(data, total, trainer.args)
    if getattr(trainer.args, "packing", False):
        return  # packed rows cannot be compared with the original ones
    if total > len(data):
        monitor.warn_once(
            f"{total - len(data)} of {total} rows were dropped: they do not fit into {limit} tokens",
            "raise max_length, or filter out long rows in the dataset's steps",
        )
    _check_unknown_tokens(data, trainer.processing_class, monitor)
    end = trainer.processing_class.eos_token_id
    cut = sum(_count_truncated(tokens, limit, end) for tokens in _token_batches(data))
    if cut:
        monitor.warn_once(
            f"{cut} of {len(data)} rows are truncated to {limit} tokens: the model never sees their ends",
            "raise max_length, or filter out long rows in the dataset's steps",
        )
    _check_eos(data, trainer.processing_class, monitor)


def check_tokens_left(data: Any, total: int, args: Any) -> None:
    """Raise StepError if none of the rows was kept. TRL's trainers cannot be built without rows."""
    if len(data) == 0:
        limit = getattr(args, "max_length", None) or _NO_LIMIT
        raise StepError(
            f"none of the {total} rows has tokens to train on within {limit} tokens",
            "raise max_length, use a model with a longer context, shorten the prompts, or check that the chat"
            " template renders the assistant's turns",
        )


def validate_held_out_rows(trainer: Any, total: int) -> None:
    """Check that every held-out row has tokens with a loss. Evaluations are compared row by row."""
    found = len(labeled_rows(trainer.eval_dataset))
    limit = getattr(trainer.args, "max_length", None) or _NO_LIMIT
    if found < total:
        raise StepError(
            f"{total - found} of {total} rows of `evaluate.data` have no tokens with a loss within {limit}"
            " tokens",
            "raise max_length, or filter out long rows in the dataset's steps",
        )


def _token_batches(data: Any) -> Iterator[Any]:
    """The token ids of the rows as Arrow tables, of which one is in memory at a time."""
    names = [name for name in _ID_COLUMNS if name in data.column_names]
    yield from data.select_columns(names).with_format("arrow").iter(_BATCH_ROWS) if names else ()


def _count_truncated(tokens: Any, limit: int, end: int) -> int:
    """Count the rows that exceed the limit, or fill it without an end token."""
    import pyarrow.compute as compute

    names = tokens.column_names
    cut: set[int] = set()
    if "prompt_ids" in names:
        prompts = compute.call_function("list_value_length", [tokens["prompt_ids"]]).to_pylist()
        for column in (name for name in _COMPLETION_ID_COLUMNS if name in names):
            lengths = compute.call_function("list_value_length", [tokens[column]]).to_pylist()
            cut |= {row for row, parts in enumerate(zip(prompts, lengths, strict=True)) if sum(parts) > limit}
        return len(cut)
    for column in (name for name in _TRUNCATED_ID_COLUMNS if name in names):
        lengths = compute.call_function("list_value_length", [tokens[column]]).to_pylist()
        full = [row for row, length in enumerate(lengths) if length == limit]
        cut |= {row for row in full if tokens[column][row].as_py()[-1] != end}
    return len(cut)


def _check_unknown_tokens(data: Any, tokenizer: Any, monitor: AnomalyMonitor) -> None:
    """Warn about rows with characters that are not in the tokenizer's vocabulary."""
    unknown = unknown_token_id(tokenizer)
    if unknown is not None:
        found = sum(_count_rows_with(unknown, tokens) for tokens in _token_batches(data))
        warn_unknown_tokens(found, len(data), monitor)


def _count_rows_with(token: int, tokens: Any) -> int:
    import pyarrow
    import pyarrow.compute as compute

    rows: set[int] = set()
    for column in (tokens[name].combine_chunks() for name in tokens.column_names):
        found = compute.call_function("equal", [column.flatten(), pyarrow.scalar(token)])
        parents = compute.call_function("list_parent_indices", [column])
        rows |= set(compute.call_function("filter", [parents, found]).to_pylist())
    return len(rows)


def unknown_token_id(tokenizer: Any) -> int | None:
    """Return the tokenizer's unknown token, unless the same token also has another role."""
    others = (tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.bos_token_id)
    return None if tokenizer.unk_token_id in others else tokenizer.unk_token_id


def warn_unknown_tokens(rows: int, of: int, monitor: AnomalyMonitor) -> None:
    if rows:
        monitor.warn_once(
            f"{rows} of {of} rows contain characters that are not in the tokenizer's vocabulary",
            "all of them become the same unknown token: add them to the tokenizer's alphabet, or use another"
            " tokenizer",
        )


def _check_eos(data: Any, tokenizer: Any, monitor: AnomalyMonitor) -> None:
    column = next((name for name in _TARGET_ID_COLUMNS if name in data.column_names), None)
    if column is None:
        return
    sample = data[:_SAMPLED_ROWS][column]
    if not any(_has_eos(row, tokenizer.eos_token_id) for row in sample):
        monitor.warn_once(
            f"none of the first {len(sample)} rows ends in {tokenizer.eos_token!r}: the model does not"
            " learn to stop",
            "add the end token after the assistant's turn in the chat template",
        )


def _has_eos(tokens: Iterable[int], end: int) -> bool:
    # Some templates put a line break after the end token.
    return end in list(tokens)[-3:]


def check_prompts(
    prompts: Iterable[Any], tokenizer: Any, model: Any, longest: int, monitor: AnomalyMonitor
) -> int:
    """Check that every prompt and the longest completion fit into the context; return the longest prompt's
    length."""
    context, unknown = context_length(model), unknown_token_id(tokenizer)
    tokenized = tokenize_prompts(prompts, tokenizer)
    lengths = [len(tokens) for tokens in tokenized]
    _raise_for_prompts(
        [length == 0 for length in lengths], "empty", "filter them out with the data step `where`"
    )
    beyond = [length >= context for length in lengths]
    if not all(beyond):
        what = f"as long as the model's context of {context} tokens, or longer"
        _raise_for_prompts(
            beyond, what, "filter them out by length with the data step `max_length` or `where`"
        )
    warn_unknown_tokens(sum(unknown in tokens for tokens in tokenized), len(tokenized), monitor)
    over = sum(length + longest > context for length in lengths)
    if over == 0:
        return max(lengths, default=0)
    message = (
        f"{over} of {len(lengths)} prompts leave no room for {longest} tokens in the model's context of"
        f" {context}; the longest prompt has {max(lengths)}"
    )
    advice = "lower max_completion_length, or filter out long prompts in the dataset's steps"
    if over == len(lengths):
        raise StepError(message, advice)
    monitor.warn_once(message, advice)
    return max(lengths)


def _raise_for_prompts(bad: list[bool], what: str, advice: str) -> None:
    """Raise StepError if any prompt is bad: the run would fail at the step that reaches it."""
    if any(bad):
        first = bad.index(True) + 1
        raise StepError(f"{sum(bad)} of {len(bad)} prompts are {what}; the first is row {first}", advice)
