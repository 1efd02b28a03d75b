"""A value inside JSON text."""

import json
import re
from typing import Any

from pydantic import Field, field_validator

from posttrain.runtime.rewards.batch import Batch, Operands
from posttrain.runtime.rewards.json_text import WHERE, NoJson, Where, read_json
from posttrain.spec.extension import Operand, Params, RewardOp

_STEP = re.compile(r"\.?([A-Za-z_][\w-]*)|\[(-?\d{1,9})\]|\[\"([^\"]*)\"\]")


class JsonPath(Params):
    path: str = Field(description='The way to the value, such as answer, items[0].name or ["a key"][-1].')
    where: Where = Field(default="whole", description=WHERE)

    @field_validator("path")
    @classmethod
    def _is_path(cls, path: str) -> str:
        steps(path)
        return path


EXTENSION = RewardOp(
    name="json_path",
    summary="A value inside JSON text: text as it is, else written as JSON; absent when it is not there.",
    params=JsonPath,
    operands={"of": Operand(type="text")},
    yields="text",
)


def run(params: JsonPath, operands: Operands, batch: Batch) -> list[str | None]:
    way = steps(params.path)
    return [None if text is None else _looked_up(text, way, params.where) for text in operands["of"]]


def steps(path: str) -> list[str | int]:
    """The keys and places of a path."""
    rest = path.removeprefix("$")
    found: list[str | int] = []
    at = 0
    while at < len(rest):
        step = _STEP.match(rest, at)
        if step is None:
            raise ValueError(f"`{rest[at:]}` is no step of a path; write keys and places as in items[0].name")
        found.append(int(step[2]) if step[2] is not None else step[1] if step[1] is not None else step[3])
        at = step.end()
    return found


def _looked_up(text: str, way: list[str | int], where: Where) -> str | None:
    try:
        value = read_json(text, where)
        for step in way:
            value = _inside(value, step)
    except (NoJson, LookupError):
        return None
    return (
        value if isinstance(value, str) else None if value is None else json.dumps(value, ensure_ascii=False)
    )


def _inside(value: Any, step: str | int) -> Any:
    """LookupError when there is no such value: a key leads into an object, a place into a list."""
    fits = isinstance(value, dict) if isinstance(step, str) else isinstance(value, list)
    if not fits:
        raise LookupError(step)
    return value[step]
