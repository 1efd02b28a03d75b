"""Records that carry a digest of all else that they say: a changed byte makes them void."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import durable
from posttrain.spec.keys import digest_bytes
from posttrain.spec.plan import canonical


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its seal."""
    return {**record, "seal": _seal(record)}


def read_sealed(path: Path) -> dict[str, Any] | None:
    """The record in a file, if it is there and as it was written."""
    record = durable.read_json(path)
    if not isinstance(record, dict) or record.get("seal") != _seal(record):
        return None
    return record


def _seal(record: Mapping[str, Any]) -> str:
    said = {name: value for name, value in record.items() if name != "seal"}
    return digest_bytes(canonical(said).encode("utf-8", "surrogatepass"))
