"""The shapes of published models, by their hub ids, from a table."""

import functools
from typing import Any

from posttrain.compiler.facts.fact_tables import load_table
from posttrain.spec.architectures.model_shapes import Shape, find_architecture


def find_shape(model: str) -> Shape | None:
    """Return the shape of a published model, or of a copy under another owner's name."""
    ids = _rows_by_id()
    row = ids.get(model.lower()) or ids.get(model.lower().rpartition("/")[2])
    return None if row is None else _shape_from_row(model, row)


def published_parts(model: str) -> tuple[str, ...]:
    """The parts of a published model besides the text model, such as a vision tower."""
    row = _rows_by_id().get(model.lower())
    is_exact = row is not None and any(model.lower() == name.lower() for name in row["ids"])
    return tuple(row.get("parts", ())) if row is not None and is_exact else ()


def published_model_ids() -> tuple[str, ...]:
    return tuple(name for row in load_table("models") for name in row["ids"])


@functools.cache
def _rows_by_id() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in load_table("models"):
        for name in row["ids"]:
            found[name.lower()] = row
            found.setdefault(name.lower().rpartition("/")[2], row)
    return found


def _shape_from_row(name: str, row: dict[str, Any]) -> Shape:
    arch = find_architecture(row["architecture"])
    assert arch is not None, f"models.json names an unknown architecture: {row['architecture']}"
    fields = {k: v for k, v in row.items() if k not in ("ids", "architecture", "published", "parts")}
    fields.setdefault("kv_heads", row["heads"])
    fields.setdefault("head_dim", row["hidden"] // row["heads"])
    fields.setdefault("tied", arch.tied)
    return Shape(name=name, architecture=arch, **fields)
