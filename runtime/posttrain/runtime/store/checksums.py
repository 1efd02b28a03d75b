"""Records with a checksum over their fields, which detects any changed byte."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.spec.canonical_json import canonical_json
from posttrain.spec.keys import digest_bytes


def with_checksum(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with a checksum field."""
    return {**record, "checksum": _checksum(record)}


def read_checksummed(path: Path) -> dict[str, Any] | None:
    """The record in a file, if it exists and matches its checksum."""
    record = atomic_io.read_json(path)
    if not isinstance(record, dict) or record.get("checksum") != _checksum(record):
        return None
    return record


def _checksum(record: Mapping[str, Any]) -> str:
    content = {name: value for name, value in record.items() if name != "checksum"}
    return digest_bytes(canonical_json(content).encode("utf-8", "surrogatepass"))
