"""Records that carry a digest of all else that they say: a changed byte makes them void."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.spec.keys import digest_bytes
from posttrain.spec.plan import canonical_json


def with_checksum(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its seal."""
    return {**record, "seal": _checksum(record)}


def read_checksummed(path: Path) -> dict[str, Any] | None:
    """The record in a file, if it is there and as it was written."""
    record = atomic_io.read_json(path)
    if not isinstance(record, dict) or record.get("seal") != _checksum(record):
        return None
    return record


def _checksum(record: Mapping[str, Any]) -> str:
    said = {name: value for name, value in record.items() if name != "seal"}
    return digest_bytes(canonical_json(said).encode("utf-8", "surrogatepass"))
