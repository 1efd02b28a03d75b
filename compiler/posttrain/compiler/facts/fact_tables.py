"""Reads the JSON tables beside this file: on first use, once, and also from inside a wheel."""

import functools
import json
import pkgutil
from typing import Any


@functools.cache
def load_table(name: str) -> Any:
    # `importlib.resources` does the same, and takes longer to import than the tables to read.
    text = pkgutil.get_data(__package__ or "", f"{name}.json")
    assert text is not None, f"the package holds no table {name}"
    return json.loads(text)
