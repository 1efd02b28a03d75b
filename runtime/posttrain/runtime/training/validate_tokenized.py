"""What became of the rows when the trainer prepared them, and whether tokenizer and model agree.

All of it is said before the first step.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.models.context_length import context_length
from posttrain.runtime.training.anomaly_monitor import AnomalyMonitor
from posttrain.runtime.training.validate_rows import METHOD_COLUMNS, row_warnings

# The columns in which trainers keep tokens: those that are learnt, and those already cut to fit.
_TARGET_ID_COLUMNS = ("input_ids", "chosen_ids", "chosen_input_ids", "completion_ids")
_COMPLETION_ID_COLUMNS = ("chosen_ids", "rejected_ids", "completion_ids")
_TRUNCATED_ID_COLUMNS = ("input_ids", "chosen_input_ids", "rejected_input_ids")
_ID_COLUMNS = (*_TARGET_ID_COLUMNS, "prompt_ids", "prompt_input_ids", "rejected_ids", "rejected_input_ids")
_LABEL_COLUMNS = ("chosen_labels", "rejected_labels")
_IGNORE_INDEX = -100  # the label of a token that is only read
_SAMPLED_ROWS = 256  # rows that are looked at for their end
_NO_LIMIT = 1 << 30


def check_tokenizer(model: Any, tokenizer: Any, watch: AnomalyMonitor) -> None:
    """Whether the tokenizer can pad and end, and the model has all of its tokens."""
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise StepError(
            "the tokenizer knows no words: its files are missing, or are not those of this model",
            "put tokenizer.json beside the model's weights, or name a tokenizer for the model",
        )
    if tokenizer.eos_token_id is None:
        raise StepError(
            "the tokenizer has no end token, so the model cannot learn to stop",
            "take a tokenizer that names one (eos_token)",
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
        watch.warn_once(
            f"the tokenizer has no padding token: {tokenizer.eos_token!r}, which ends a text, also pads",
            "take a tokenizer that names one (pad_token)",
        )
    rows = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > rows:
        raise StepError(
            f"the tokenizer has {len(tokenizer)} tokens, and the model knows {rows}",
            "use the tokenizer that belongs to the model",
        )


def validate_tokenized_rows(trainer: Any, rows: Any, watch: AnomalyMonitor) -> None:
    """Say what is striking about the rows, which of them were dropped or cut to fit, and whether any ends."""
    given = len(rows)
    for told in row_warnings(
        rows.select_columns([name for name in METHOD_COLUMNS if name in rows.column_names])[:]
    ):
        watch.warn_once(*told)
    data = trainer.train_dataset = _drop_rows_without_labels(trainer.train_dataset)
    limit = getattr(trainer.args, "max_length", None) or _NO_LIMIT
    if len(data) == 0:
        raise StepError(
            f"none of the {given} rows fits into {limit} tokens with something to learn",
            "raise max_length, take a model with a longer context, shorten the prompts, or see that the chat"
            " template writes the assistant's turns",
        )
    if getattr(trainer.args, "packing", False):
        return  # rows have become other rows
    if given > len(data):
        watch.warn_once(
            f"{given - len(data)} of {given} rows were dropped: they do not fit into {limit} tokens",
            "raise max_length, or filter long rows in the dataset's steps",
        )
    tokens = data.with_format("arrow")[:]
    _check_unknown_tokens(tokens, trainer.processing_class, watch)
    cut = _count_truncated(tokens, limit, trainer.processing_class.eos_token_id)
    if cut:
        watch.warn_once(
            f"{cut} of {len(data)} rows are cut to {limit} tokens: their ends are never learnt",
            "raise max_length, or filter long rows in the dataset's steps",
        )
    _check_eos(tokens, trainer.processing_class, watch)


def _drop_rows_without_labels(data: Any) -> Any:
    """The rows of which tokens are left to learn: TRL's experimental trainers keep the others, whose loss
    is no number."""
    names = [name for name in _LABEL_COLUMNS if name in data.column_names]
    if not names or len(data) == 0:
        return data
    tokens = data.with_format("arrow")[:]
    last = [_last_labels(tokens[name].combine_chunks()) for name in names]
    kept = [row for row in range(len(data)) if all(labels[row] != _IGNORE_INDEX for labels in last)]
    return data if len(kept) == len(data) else data.select(kept)


def _last_labels(lists: Any) -> list[int]:
    """The last label of each row; one without any has nothing to learn."""
    ends, values = lists.offsets.to_pylist(), lists.values
    return [values[end - 1].as_py() if end > start else _IGNORE_INDEX for start, end in pairwise(ends)]


def _count_truncated(tokens: Any, limit: int, end: int) -> int:
    """How many rows reach past the limit, or fill it without an end."""
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


def _check_unknown_tokens(tokens: Any, tokenizer: Any, watch: AnomalyMonitor) -> None:
    """Whether the tokenizer knows what the rows hold."""
    import pyarrow
    import pyarrow.compute as compute

    unknown = unknown_token_id(tokenizer)
    names = [name for name in _ID_COLUMNS if name in tokens.column_names]
    if unknown is None or not names:
        return
    rows: set[int] = set()
    for column in (tokens[name].combine_chunks() for name in names):
        found = compute.call_function("equal", [column.flatten(), pyarrow.scalar(unknown)])
        parents = compute.call_function("list_parent_indices", [column])
        rows |= set(compute.call_function("filter", [parents, found]).to_pylist())
    warn_unknown_tokens(len(rows), tokens.num_rows, watch)


def unknown_token_id(tokenizer: Any) -> int | None:
    """The token that stands for all that the tokenizer does not know, where it has one for that alone."""
    others = (tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.bos_token_id)
    return None if tokenizer.unk_token_id in others else tokenizer.unk_token_id


def warn_unknown_tokens(rows: int, of: int, watch: AnomalyMonitor) -> None:
    if rows:
        watch.warn_once(
            f"{rows} of {of} rows hold characters that the tokenizer does not know",
            "the model reads the same unknown token for each: add them to the tokenizer's alphabet, or take"
            " another tokenizer",
        )


def _check_eos(tokens: Any, tokenizer: Any, watch: AnomalyMonitor) -> None:
    column = next((name for name in _TARGET_ID_COLUMNS if name in tokens.column_names), None)
    if column is None:
        return
    looked_at = tokens[column][:_SAMPLED_ROWS].to_pylist()
    if not any(_has_eos(row, tokenizer.eos_token_id) for row in looked_at):
        watch.warn_once(
            f"none of the first {len(looked_at)} rows ends in {tokenizer.eos_token!r}: the model does not"
            " learn to stop",
            "have the chat template write the end token after the assistant's turn",
        )


def _has_eos(tokens: Iterable[int], end: int) -> bool:
    # Some templates write a line break after the end token.
    return end in list(tokens)[-3:]


def check_prompts(
    prompts: Iterable[Any], tokenizer: Any, model: Any, longest: int, watch: AnomalyMonitor
) -> int:
    """Whether the model can read every prompt, and has room for the longest completion after it; gives the
    length of the longest prompt."""
    context, unknown = context_length(model), unknown_token_id(tokenizer)
    read = tokenize_prompts(prompts, tokenizer)
    lengths = [len(tokens) for tokens in read]
    _raise_for_prompts([length == 0 for length in lengths], "without a token", "drop empty ones with `where`")
    beyond = [length >= context for length in lengths]
    if not all(beyond):
        what = f"as long as the model's context of {context} tokens, or longer"
        _raise_for_prompts(
            beyond, what, "drop them with the data step `max_length`, or `where` by their length"
        )
    warn_unknown_tokens(sum(unknown in tokens for tokens in read), len(read), watch)
    over = sum(length + longest > context for length in lengths)
    if over == 0:
        return max(lengths, default=0)
    message = (
        f"{over} of {len(lengths)} prompts leave no room for {longest} tokens in the model's context of"
        f" {context}; the longest prompt has {max(lengths)}"
    )
    advice = "lower max_tokens, or filter long prompts in the dataset's steps"
    if over == len(lengths):
        raise StepError(message, advice)
    watch.warn_once(message, advice)
    return max(lengths)


def _raise_for_prompts(bad: list[bool], what: str, advice: str) -> None:
    """Such prompts would end the run at the step that comes to them."""
    if any(bad):
        first = bad.index(True) + 1
        raise StepError(f"{sum(bad)} of {len(bad)} prompts are {what}; the first is row {first}", advice)


def tokenize_prompts(prompts: Iterable[Any], tokenizer: Any) -> list[list[int]]:
    """Prompts as the model reads them."""
    texts = [prompt if isinstance(prompt, str) else _render_prompt(prompt, tokenizer) for prompt in prompts]
    return tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []


def _render_prompt(messages: Any, tokenizer: Any) -> str:
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
