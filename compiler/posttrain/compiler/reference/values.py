"""A plain value as YAML on one line."""

import json
import re
from typing import Any, cast

from posttrain.compiler.text.scalars import resolve

_PLAIN = re.compile(r"[A-Za-z0-9_<>/.$](?:[A-Za-z0-9_<>/.$() =+-]*[A-Za-z0-9_<>/.$()+-])?\Z")


def flow(value: Any) -> str:
    match value:
        case dict():
            pairs = cast(dict[str, Any], value).items()
            return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in pairs) + "}"
        case list():
            return "[" + ", ".join(flow(item) for item in cast(list[Any], value)) + "]"
        case str():
            return value if _PLAIN.match(value) and resolve(value) == value else _quoted(value)
        case _:
            return json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
