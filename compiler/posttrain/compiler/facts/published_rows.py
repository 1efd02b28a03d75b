"""The number of rows of published datasets, for estimates: `rows.json` has the numbers of their authors."""

from collections.abc import Mapping
from typing import Any

from posttrain.compiler.facts.fact_tables import load_table

_SPLIT_KEYS = ("name", "config", "split")


def published_row_count(params: Mapping[str, Any]) -> int | None:
    """Return the rows of a dataset on the hub, if they are known and the split is a whole one."""
    name, config, split = (params.get(key) for key in _SPLIT_KEYS)
    configs = load_table("rows").get(str(name), {})
    splits = configs.get(config if config is not None else "default", {})
    return splits.get(split)
