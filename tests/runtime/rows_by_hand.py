"""Datasets of trainers from lists of rows, without the mapped files and processes of training stages."""

import json
import random
from collections.abc import Iterable
from typing import Any

from posttrain.runtime.chat_prompts import TEMPLATE_COLUMNS, TOOLS
from posttrain.spec.messages import is_plain

Row = dict[str, Any]


def to_dataset(rows: list[Row], columns: Iterable[str]) -> Any:
    from datasets import Dataset, Features, Json, List

    names = [name for name in dict.fromkeys(columns) if name in rows[0]]
    values = {name: [row[name] for row in rows] for name in names}
    nested: dict[str, Any] = {name: List(Json()) for name in names if _has_tool_fields(values[name])}
    if TOOLS in names:
        values[TOOLS] = [None if tools is None else json.dumps(tools) for tools in values[TOOLS]]
    data = Dataset.from_dict({name: values[name] for name in names if name not in nested})
    return Dataset.from_dict(values, features=Features({**data.features, **nested})) if nested else data


def label_rows(rows: list[Row], seed: int) -> list[Row]:
    """Labeled completions in random order. A pair becomes two consecutive rows."""
    order = list(rows)
    random.Random(seed).shuffle(order)
    if "chosen" not in rows[0]:
        return order
    return [
        {
            **{name: row[name] for name in TEMPLATE_COLUMNS if name in row},
            "prompt": row["prompt"],
            "completion": row[column],
            "label": column == "chosen",
        }
        for row in order
        for column in ("chosen", "rejected")
    ]


def _has_tool_fields(values: list[Any]) -> bool:
    talks = (value for value in values if isinstance(value, list))
    turns = (turn for value in talks for turn in value if isinstance(turn, dict) and "role" in turn)
    return any(not is_plain(turn) for turn in turns)
