"""Loads the JSON tables of this package, once each, also from a wheel."""

import functools
import json
import pkgutil
from typing import Any


@functools.cache
def load_table(name: str) -> Any:
    # `importlib.resources` would take longer to import than the tables take to read.
    text = pkgutil.get_data(__package__ or "", f"{name}.json")
    assert text is not None, f"the package has no table {name}"
    return json.loads(text)
