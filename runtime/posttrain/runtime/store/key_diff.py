"""Describes a changed part of a key as text."""

import json
from collections.abc import Mapping
from typing import Any


def describe_change(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The old and the new value of a part of a key."""
    was, now = before.get(name), after.get(name)
    name = name.removeprefix("params.")  # the name in the recipe
    if isinstance(was, dict) and isinstance(now, dict):
        keys = sorted(k for k in {*was, *now} if was.get(k) != now.get(k))
        return ", ".join(f"{name}.{k}: {_shorten(was.get(k))} -> {_shorten(now.get(k))}" for k in keys[:3])
    return f"{name}: {_shorten(was)} -> {_shorten(now)}"


def _shorten(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 32 else text[:29] + "..."
