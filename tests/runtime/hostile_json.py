"""Damaged and hostile JSON files, and what the message about each says."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from posttrain.spec.document_json import MAX_DOCUMENT_BYTES, json_checksum

# Each replaces a file, whose record is passed, by a damaged one.
Damage = Callable[[Path, dict[str, Any]], object]


def write_sealed(path: Path, record: Mapping[str, Any], **changes: Any) -> None:
    """Write a record with changed fields and, if it has a checksum, the right one."""
    changed = {**record, **changes}
    if "checksum" in record:
        changed["checksum"] = json_checksum(changed)
    path.write_text(json.dumps(changed))


def _write(text: str) -> Damage:
    return lambda path, _: path.write_text(text)


def _pipe(path: Path, _: object) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path, _: object) -> None:
    path.unlink()
    path.mkdir()


def _huge(path: Path, _: object) -> None:
    os.truncate(path, MAX_DOCUMENT_BYTES + 1)


def _duplicate(path: Path, record: dict[str, Any]) -> None:
    path.write_text('{"format": 2, ' + json.dumps(record)[1:])


def _constant(path: Path, record: dict[str, Any]) -> None:
    path.write_text(json.dumps({**record, "more": float("nan")}))


# Damage of any record with a format, and the cause in the message.
HOSTILE: Mapping[str, tuple[Damage, str]] = {
    "truncated": (lambda path, _: path.write_text(path.read_text()[:40]), "it is not complete JSON"),
    "empty": (_write(""), "line 1, column 1: it is not complete JSON"),
    "binary": (lambda path, _: path.write_bytes(b'{"a": "\xff"}'), "byte 7 is not UTF-8 text"),
    "list": (_write("[1]"), "it is not a JSON object"),
    "nested": (_write('{"facts":' + "[" * 200_000), "it is nested too deeply"),
    "digits": (_write('{"format": ' + "1" * 10_000 + "}"), "it is not valid JSON"),
    "duplicate": (_duplicate, "the key `format` occurs twice in one object"),
    "nan": (_constant, "NaN is not a JSON value"),
    "huge": (_huge, "MB, which no such file has"),
    "pipe": (_pipe, "it is not a regular file"),
    "folder": (_folder, "it is not a regular file"),
    "no number": (lambda path, record: write_sealed(path, record, format="2"), "it has no format number"),
    "unknown": (lambda path, record: write_sealed(path, record, more=1), "`more`: unknown key"),
    "newer": (
        lambda path, record: write_sealed(path, record, format=99),
        "it has format 99 of a newer release",
    ),
}
