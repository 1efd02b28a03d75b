"""A plain value as YAML on one line."""

import json
import re
from typing import Any, cast

from posttrain.compiler.text.yaml_scalars import resolve_scalar

_PLAIN_SCALAR = re.compile(r"[A-Za-z0-9_<>/.$](?:[A-Za-z0-9_<>/.$() =+-]*[A-Za-z0-9_<>/.$()+-])?\Z")


def to_flow_yaml(value: Any) -> str:
    match value:
        case dict():
            pairs = cast(dict[str, Any], value).items()
            return "{" + ", ".join(f"{to_flow_yaml(key)}: {to_flow_yaml(item)}" for key, item in pairs) + "}"
        case list():
            return "[" + ", ".join(to_flow_yaml(item) for item in cast(list[Any], value)) + "]"
        case str():
            return value if _PLAIN_SCALAR.match(value) and resolve_scalar(value) == value else _quote(value)
        case _:
            return json.dumps(value)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
