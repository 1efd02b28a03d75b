"""A value inside a JSON document."""

import json
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.text_parsing.json_extraction import (
    WHERE_DESCRIPTION,
    JsonNotFoundError,
    Where,
    read_json,
)
from posttrain.spec.extension import Operand, Params, RewardOp
from posttrain.spec.field_types import checked_by

_PATH_STEP = re.compile(r"\.?([A-Za-z_][\w-]*)|\[(-?\d{1,9})\]|\[\"([^\"]*)\"\]")
_QUERY_PREFIX = "$"  # the first character of an RFC 9535 query


def parse_path(path: str) -> list[str | int]:
    """The keys and indices of a path in the short form."""
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        step = _PATH_STEP.match(path, at)
        if step is None:
            raise ValueError(f"invalid path at `{path[at:]}`: write keys and indices as in items[0].name")
        steps.append(int(step[2]) if step[2] is not None else step[1] if step[1] is not None else step[3])
        at = step.end()
    return steps


def check_path(path: str) -> None:
    if not path.startswith(_QUERY_PREFIX):
        parse_path(path)
        return
    from posttrain.runtime.rewards.jsonpath.bounded_query import parse_query

    parse_query(path)


class JsonPath(Params):
    path: Annotated[str, Field(max_length=2000), checked_by(check_path)] = Field(
        description='The path of the value, such as answer, items[0].name or ["a key"][-1], or a JSONPath'
        " query (RFC 9535) that starts with $, such as $.items[?@.ok].name.",
    )
    pick: Literal["first", "last", "only", "all"] = Field(
        default="first",
        description="The value to use if a query finds several. `only` requires exactly one value, `all`"
        " returns the list of all values.",
    )
    where: Where = Field(default="whole", description=WHERE_DESCRIPTION)


EXTENSION = RewardOp(
    name="json_path",
    summary="A value inside a JSON document. A string is returned unquoted, any other value as JSON. Absent"
    " if the value is missing or null. A row whose query exceeds the limits of work is unscored.",
    params=JsonPath,
    operands={"of": Operand(type="text", description="The text that is JSON or contains it.")},
    yields="text",
    stack=("jsonpath-rfc9535", "pyarrow", "regex"),
)
Finder = Callable[[Any], list[Any]]


def run(params: JsonPath, operands: Operands, batch: Batch) -> OpResult:
    look = _compile_path(params.path)
    values: list[str | None] = []
    undecided: dict[int, str] = {}
    for row, text in enumerate(operands["of"]):
        try:
            values.append(None if text is None else _look_up(text, look, params))
        except (ValueError, RecursionError) as error:  # a limit of the query
            values.append(None)
            undecided[row] = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    reasons = [undecided.get(row) for row in range(batch.count)] if undecided else []
    return OpResult(values=values, reasons=reasons, unknown=frozenset(undecided))


def _compile_path(path: str) -> Finder:
    if not path.startswith(_QUERY_PREFIX):
        way = parse_path(path)
        return lambda value: _follow_path(value, way)
    from posttrain.runtime.rewards.jsonpath.bounded_query import find_values, parse_query

    query = parse_query(path)
    return lambda value: find_values(query, value)


def _look_up(text: str, look: Finder, params: JsonPath) -> str | None:
    """The selected value; None if there is none, or if the text has no JSON."""
    try:
        value = read_json(text, params.where)
    except JsonNotFoundError:
        return None
    values = look(value)
    if params.pick == "all":
        return _to_text(values)
    if not values or (params.pick == "only" and len(values) > 1):
        return None
    return _to_text(values[-1 if params.pick == "last" else 0])


def _to_text(value: Any) -> str | None:
    return (
        value if isinstance(value, str) else None if value is None else json.dumps(value, ensure_ascii=False)
    )


def _follow_path(value: Any, way: list[str | int]) -> list[Any]:
    """The value at a path, if it exists. A string is a key of an object, an integer an index of a list."""
    for step in way:
        try:
            fits = isinstance(value, dict) if isinstance(step, str) else isinstance(value, list)
            value = value[step] if fits else None
        except LookupError:
            return []
        if not fits:
            return []
    return [value]
