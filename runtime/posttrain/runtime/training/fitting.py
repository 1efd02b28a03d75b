"""What became of the rows when the trainer prepared them, and whether tokenizer and model agree.

All of it is said before the first step.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from posttrain.runtime.faults import StepFault
from posttrain.runtime.models.length import context_of
from posttrain.runtime.training.examining import READ, remarks
from posttrain.runtime.training.watch import Watch

# The columns in which trainers keep tokens: those that are learnt, and those already cut to fit.
_LEARNT = ("input_ids", "chosen_ids", "chosen_input_ids", "completion_ids")
_AFTER_PROMPT = ("chosen_ids", "rejected_ids", "completion_ids")
_CUT_BEFORE = ("input_ids", "chosen_input_ids", "rejected_input_ids")
_IDS = (*_LEARNT, "prompt_ids", "prompt_input_ids", "rejected_ids", "rejected_input_ids")
_LABELS = ("chosen_labels", "rejected_labels")
_NOT_LEARNT = -100  # the label of a token that is only read
_LOOKED_AT = 256  # rows that are looked at for their end
_NO_LIMIT = 1 << 30


def check_tokens(model: Any, tokenizer: Any, watch: Watch) -> None:
    """Whether the tokenizer can pad and end, and the model has all of its tokens."""
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise StepFault(
            "the tokenizer knows no words: its files are missing, or are not those of this model",
            "put tokenizer.json beside the model's weights, or name a tokenizer for the model",
        )
    if tokenizer.eos_token_id is None:
        raise StepFault(
            "the tokenizer has no end token, so the model cannot learn to stop",
            "take a tokenizer that names one (eos_token)",
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
        watch.warn(
            f"the tokenizer has no padding token: {tokenizer.eos_token!r}, which ends a text, also pads",
            "take a tokenizer that names one (pad_token)",
        )
    rows = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > rows:
        raise StepFault(
            f"the tokenizer has {len(tokenizer)} tokens, and the model knows {rows}",
            "use the tokenizer that belongs to the model",
        )


def check_rows(trainer: Any, rows: Any, watch: Watch) -> None:
    """Say what is striking about the rows, which of them were dropped or cut to fit, and whether any ends."""
    given = len(rows)
    for told in remarks(rows.select_columns([name for name in READ if name in rows.column_names])[:]):
        watch.warn(*told)
    data = trainer.train_dataset = _with_something_to_learn(trainer.train_dataset)
    limit = getattr(trainer.args, "max_length", None) or _NO_LIMIT
    if len(data) == 0:
        raise StepFault(
            f"none of the {given} rows fits into {limit} tokens with something to learn",
            "raise max_length, take a model with a longer context, shorten the prompts, or see that the chat"
            " template writes the assistant's turns",
        )
    if getattr(trainer.args, "packing", False):
        return  # rows have become other rows
    if given > len(data):
        watch.warn(
            f"{given - len(data)} of {given} rows were dropped: they do not fit into {limit} tokens",
            "raise max_length, or filter long rows in the dataset's steps",
        )
    tokens = data.with_format("arrow")[:]
    _check_known(tokens, trainer.processing_class, watch)
    cut = _cut(tokens, limit, trainer.processing_class.eos_token_id)
    if cut:
        watch.warn(
            f"{cut} of {len(data)} rows are cut to {limit} tokens: their ends are never learnt",
            "raise max_length, or filter long rows in the dataset's steps",
        )
    _check_ends(tokens, trainer.processing_class, watch)


def _with_something_to_learn(data: Any) -> Any:
    """The rows of which tokens are left to learn: TRL's experimental trainers keep the others, whose loss
    is no number."""
    names = [name for name in _LABELS if name in data.column_names]
    if not names or len(data) == 0:
        return data
    tokens = data.with_format("arrow")[:]
    last = [_last(tokens[name].combine_chunks()) for name in names]
    kept = [row for row in range(len(data)) if all(labels[row] != _NOT_LEARNT for labels in last)]
    return data if len(kept) == len(data) else data.select(kept)


def _last(lists: Any) -> list[int]:
    """The last label of each row; one without any has nothing to learn."""
    ends, values = lists.offsets.to_pylist(), lists.values
    return [values[end - 1].as_py() if end > start else _NOT_LEARNT for start, end in pairwise(ends)]


def _cut(tokens: Any, limit: int, end: int) -> int:
    """How many rows reach past the limit, or fill it without an end."""
    import pyarrow.compute as compute

    names = tokens.column_names
    cut: set[int] = set()
    if "prompt_ids" in names:
        prompts = compute.call_function("list_value_length", [tokens["prompt_ids"]]).to_pylist()
        for column in (name for name in _AFTER_PROMPT if name in names):
            lengths = compute.call_function("list_value_length", [tokens[column]]).to_pylist()
            cut |= {row for row, parts in enumerate(zip(prompts, lengths, strict=True)) if sum(parts) > limit}
        return len(cut)
    for column in (name for name in _CUT_BEFORE if name in names):
        lengths = compute.call_function("list_value_length", [tokens[column]]).to_pylist()
        full = [row for row, length in enumerate(lengths) if length == limit]
        cut |= {row for row in full if tokens[column][row].as_py()[-1] != end}
    return len(cut)


def _check_known(tokens: Any, tokenizer: Any, watch: Watch) -> None:
    """Whether the tokenizer knows what the rows hold."""
    import pyarrow
    import pyarrow.compute as compute

    unknown = unknown_to(tokenizer)
    names = [name for name in _IDS if name in tokens.column_names]
    if unknown is None or not names:
        return
    rows: set[int] = set()
    for column in (tokens[name].combine_chunks() for name in names):
        found = compute.call_function("equal", [column.flatten(), pyarrow.scalar(unknown)])
        parents = compute.call_function("list_parent_indices", [column])
        rows |= set(compute.call_function("filter", [parents, found]).to_pylist())
    warn_unknown(len(rows), tokens.num_rows, watch)


def unknown_to(tokenizer: Any) -> int | None:
    """The token that stands for all that the tokenizer does not know, where it has one for that alone."""
    others = (tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.bos_token_id)
    return None if tokenizer.unk_token_id in others else tokenizer.unk_token_id


def warn_unknown(rows: int, of: int, watch: Watch) -> None:
    if rows:
        watch.warn(
            f"{rows} of {of} rows hold characters that the tokenizer does not know",
            "the model reads the same unknown token for each: add them to the tokenizer's alphabet, or take"
            " another tokenizer",
        )


def _check_ends(tokens: Any, tokenizer: Any, watch: Watch) -> None:
    column = next((name for name in _LEARNT if name in tokens.column_names), None)
    if column is None:
        return
    looked_at = tokens[column][:_LOOKED_AT].to_pylist()
    if not any(_ends(row, tokenizer.eos_token_id) for row in looked_at):
        watch.warn(
            f"none of the first {len(looked_at)} rows ends in {tokenizer.eos_token!r}: the model does not"
            " learn to stop",
            "have the chat template write the end token after the assistant's turn",
        )


def _ends(tokens: Iterable[int], end: int) -> bool:
    # Some templates write a line break after the end token.
    return end in list(tokens)[-3:]


def check_prompts(prompts: Iterable[Any], tokenizer: Any, model: Any, longest: int, watch: Watch) -> int:
    """Whether the model can read every prompt, and has room for the longest completion after it; gives the
    length of the longest prompt."""
    context, unknown = context_of(model), unknown_to(tokenizer)
    read = tokens_of(prompts, tokenizer)
    lengths = [len(tokens) for tokens in read]
    _refuse_prompts([length == 0 for length in lengths], "without a token", "drop empty ones with `where`")
    beyond = [length >= context for length in lengths]
    if not all(beyond):
        what = f"as long as the model's context of {context} tokens, or longer"
        _refuse_prompts(beyond, what, "drop them with the data step `max_length`, or `where` by their length")
    warn_unknown(sum(unknown in tokens for tokens in read), len(read), watch)
    over = sum(length + longest > context for length in lengths)
    if over == 0:
        return max(lengths, default=0)
    message = (
        f"{over} of {len(lengths)} prompts leave no room for {longest} tokens in the model's context of"
        f" {context}; the longest prompt has {max(lengths)}"
    )
    advice = "lower max_tokens, or filter long prompts in the dataset's steps"
    if over == len(lengths):
        raise StepFault(message, advice)
    watch.warn(message, advice)
    return max(lengths)


def _refuse_prompts(bad: list[bool], what: str, advice: str) -> None:
    """Such prompts would end the run at the step that comes to them."""
    if any(bad):
        first = bad.index(True) + 1
        raise StepFault(f"{sum(bad)} of {len(bad)} prompts are {what}; the first is row {first}", advice)


def tokens_of(prompts: Iterable[Any], tokenizer: Any) -> list[list[int]]:
    """Prompts as the model reads them."""
    texts = [prompt if isinstance(prompt, str) else _rendered(prompt, tokenizer) for prompt in prompts]
    return tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []


def _rendered(messages: Any, tokenizer: Any) -> str:
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
