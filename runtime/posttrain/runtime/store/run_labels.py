"""The name, the tags and the note that a user gives to a run: `labels.json` in its folder.

They are for people: no key, no plan and no product contains them, and a journal that is repaired does not
lose them.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.store.document_files import read_limited
from posttrain.runtime.store.file_locks import acquire_lock
from posttrain.runtime.store.home import Home
from posttrain.spec.document_json import DocumentError
from posttrain.spec.record import record

LABELS_FILE = "labels.json"
FORMAT = 1
_MAX_NAME, _MAX_NOTE, _MAX_TAGS = 200, 10_000, 100


class LabelError(Exception):
    """Labels that cannot be stored, with the reason."""


@record(kw_only=True)
class RunLabels:
    """What a user calls a run."""

    name: str = ""
    # Sorted, without duplicates.
    tags: tuple[str, ...] = ()
    note: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.name or self.tags or self.note)


def read_labels(run: Path) -> RunLabels:
    """The labels of a run; empty ones for a file that is missing or damaged."""
    try:
        return _parse(json.loads(read_limited(run / LABELS_FILE).decode()))
    except (DocumentError, ValueError, RecursionError):
        return RunLabels()


def _parse(found: Any) -> RunLabels:
    if not isinstance(found, dict):
        return RunLabels()
    name, tags, note = found.get("name"), found.get("tags"), found.get("note")
    texts = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    return RunLabels(
        name=name if isinstance(name, str) else "",
        tags=tuple(sorted(set(texts))),
        note=note if isinstance(note, str) else "",
    )


def check_labels(labels: RunLabels) -> RunLabels:
    """The labels without surrounding whitespace. Raises `LabelError` for those that a list cannot show."""
    name, note = " ".join(labels.name.split()), labels.note.strip()
    tags = tuple(sorted({tag.strip() for tag in labels.tags}))
    for what, text in (("name", name), *(("tag", tag) for tag in tags)):
        if any(not character.isprintable() for character in text):
            raise LabelError(f"the {what} {text!r} has characters that cannot be shown; leave them out")
        if len(text) > _MAX_NAME:
            raise LabelError(f"the {what} has {len(text)} characters; {_MAX_NAME} is the limit")
    for tag in tags:
        if not tag or any(character.isspace() or character in "=,<>!" for character in tag):
            raise LabelError(f"the tag {tag!r} is empty, or has a space or one of `=,<>!`; use `-` instead")
    if len(tags) > _MAX_TAGS:
        raise LabelError(f"{len(tags)} tags are too many; {_MAX_TAGS} is the limit")
    if len(note) > _MAX_NOTE:
        raise LabelError(f"the note has {len(note)} characters; {_MAX_NOTE} is the limit")
    return replace(labels, name=name, tags=tags, note=note)


def write_labels(run: Path, labels: RunLabels) -> None:
    """Replace the labels of a run atomically."""
    found = {"format": FORMAT, "name": labels.name, "tags": list(labels.tags), "note": labels.note}
    atomic_io.write_json(run / LABELS_FILE, found, create_folder=False)


def edit_labels(home: Home, run: Path, change: Callable[[RunLabels], RunLabels]) -> RunLabels:
    """Change the labels of a run, and return the new ones. Two edits at once are both kept."""
    lock = acquire_lock(home.root / "work" / f"labels-{run.name}.lock")
    try:
        _refuse_newer_format(run)
        labels = check_labels(change(read_labels(run)))
        write_labels(run, labels)
    finally:
        lock.discard()
    return labels


def _refuse_newer_format(run: Path) -> None:
    try:
        found = json.loads(read_limited(run / LABELS_FILE).decode())
    except (DocumentError, ValueError, RecursionError):
        return
    written = found.get("format") if isinstance(found, dict) else None
    if isinstance(written, int) and written > FORMAT:
        raise LabelError(
            f"{run / LABELS_FILE} has format {written}, of a newer release; edit it with that release"
        )
