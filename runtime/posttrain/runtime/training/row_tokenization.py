"""Tokenizes the rows of a trainer, in batches and several processes, into mapped files."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.models.template_probe import find_rejection
from posttrain.runtime.step_context import StopRequest
from posttrain.runtime.training.row_preparation import PreparedRows, Row, conversations
from posttrain.runtime.training_rows.mapped_dataset import map_dataset

REJECTED_ADVICE = "use a chat template that renders such rows, or filter them out in the dataset's steps"
# The columns of token ids, as the collators read them.
TOKEN_COLUMNS = ("input_ids", "labels")
# Options of a tokenizer that say where its files are. The same files can be in several folders.
_ORIGIN_OPTIONS = (
    "name_or_path",
    "is_local",
    "local_files_only",
    "tokenizer_file",
    "vocab_file",
    "merges_file",
)
# The values of each of `TOKEN_COLUMNS` for rows, whose first one has the number that is passed too.
Encode = Callable[[Sequence[Row], int], tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]]


def tokenize_rows(
    rows: PreparedRows, parts: Any, encode: Encode, template: Any, name: str, stop: StopRequest | None = None
) -> Any:
    """The dataset of token ids and labels that `encode` makes of batches of rows.

    `parts` are what its result depends on besides the rows. `name` is that of the rows in the error about a
    row that the chat template rejects.
    """
    import pyarrow
    from datasets import Features, List, Value

    features = {column: List(Value("int32")) for column in TOKEN_COLUMNS}
    schema = Features(features).arrow_schema

    def convert(start: int, end: int) -> tuple[Any, None]:
        batch = read_batch(rows.data, start, end)
        columns = _encode(batch, start + 1, encode, template, name)
        return pyarrow.table(dict(zip(TOKEN_COLUMNS, columns, strict=True)), schema=schema), None

    key = {"rows": rows.key, "columns": rows.data.column_names, "tokens": parts}
    return map_dataset(rows.cache, key, rows.data.data, features, convert, lambda _: {}, stop).data


def read_batch(data: Any, start: int, stop: int) -> list[Row]:
    columns: Mapping[str, Sequence[Any]] = data[start:stop]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def tokenizer_key(tokenizer: Any) -> Any:
    """What the token ids of a text depend on."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    added = {str(id): repr(token) for id, token in sorted(tokenizer.added_tokens_decoder.items())}
    options = {name: value for name, value in tokenizer.init_kwargs.items() if name not in _ORIGIN_OPTIONS}
    return {
        "class": type(tokenizer).__name__,
        "backend": None if backend is None else backend.to_str(),
        "vocabulary": None if backend is not None else sorted(tokenizer.get_vocab().items()),
        "tokens": [added, repr(tokenizer.special_tokens_map), repr(sorted(options.items()))],
        "template": tokenizer.chat_template,
    }


def _encode(batch: Sequence[Row], first: int, encode: Encode, template: Any, name: str) -> Any:
    from jinja2 import TemplateError

    try:
        return encode(batch, first)
    except TemplateError as error:
        found = find_rejection(conversations(batch, batch[0], first), template)
        if found is None:
            message = f"the chat template rejects a conversation: {error}"
        else:
            message = f"row {found[0]} of {name}: the chat template rejects the conversation: {found[1]}"
        raise StepError(message, REJECTED_ADVICE) from None
