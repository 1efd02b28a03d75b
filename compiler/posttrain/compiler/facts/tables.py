"""Reads the JSON tables beside this file: on first use, once, and also from inside a wheel."""

import functools
import json
from importlib import resources
from typing import Any


@functools.cache
def table(name: str) -> Any:
    text = resources.files(__package__ or "").joinpath(f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text)
