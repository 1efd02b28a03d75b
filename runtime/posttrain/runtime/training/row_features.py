"""The columns of a trainer's dataset: their types, and Arrow tables of rows."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from posttrain.runtime.chat_prompts import TEMPLATE_KWARGS, TOOLS
from posttrain.runtime.message_columns import has_messages

TURN_COLUMNS = ("messages", "prompt", "completion", "chosen", "rejected")
Row = dict[str, Any]


def dataset_features(
    source: Any, names: Iterable[str], chat_columns: Iterable[str], *, weights: bool
) -> Mapping[str, Any]:
    """The types of the columns `names` of rows from the Arrow table `source`.

    Text in `chat_columns` becomes messages. Messages with more than a role and a content are stored as JSON:
    Arrow would add every field to every turn, and the arguments of one tool to the calls of others.
    """
    from datasets import Features, Json, List, Value

    features: dict[str, Any] = {}
    for name in names:
        if name == TOOLS:  # TRL reads JSON text
            features[name] = Value("string")
        elif name == TEMPLATE_KWARGS:
            features[name] = Json()
        elif name in source.column_names and has_messages(source.schema.field(name).type):
            ignored = () if weights or name not in TURN_COLUMNS else ("weight",)
            features[name] = List(Json() if _has_other_fields(source[name], ignored) else _message())
        elif name in chat_columns:
            features[name] = List(_message())
        elif name in source.column_names:
            features[name] = Features.from_arrow_schema(source.select([name]).schema)[name]
        elif name == "label":  # of the completions of pairs
            features[name] = Value("bool")
        else:
            assert name == "completion", "the completions of pairs have the types of both"
            pair = dataset_features(source, ("chosen", "rejected"), chat_columns, weights=weights)
            features[name] = max(pair.values(), key=lambda one: "Json(" in repr(one))
    return features


def rows_table(rows: Sequence[Row], features: Mapping[str, Any]) -> Any:
    """An Arrow table of rows with the types of `dataset_features`."""
    import pyarrow
    from datasets import Dataset, Features

    typed = Features(features)
    values = {name: [row[name] for row in rows] for name in features}
    if TOOLS in values:
        values[TOOLS] = [None if tools is None else json.dumps(tools) for tools in values[TOOLS]]
    if "Json(" in repr(typed):
        return Dataset.from_dict(values, features=typed).data.table.cast(typed.arrow_schema)
    return pyarrow.table(values, schema=typed.arrow_schema)


def _message() -> dict[str, Any]:
    from datasets import Value

    return {"role": Value("string"), "content": Value("string")}


def _has_other_fields(column: Any, ignored: Sequence[str]) -> bool:
    """Whether a message of an Arrow column has a value for another field, or none for its content."""
    for chunk in column.chunks:
        turns = chunk.flatten()
        for field in turns.type:
            values = turns.field(field.name)
            if field.name in ("role", "content"):
                if values.null_count:
                    return True
            elif field.name not in ignored and values.null_count < len(values):
                return True
    return False
