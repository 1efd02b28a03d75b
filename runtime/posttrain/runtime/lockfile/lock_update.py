"""Reads and updates the lock file next to a recipe."""

from collections.abc import Mapping
from pathlib import Path

from posttrain.runtime.atomic_io import write_text
from posttrain.runtime.lockfile.lock_resolver import QueryListener, resolve_entries
from posttrain.runtime.store.document_files import read_limited
from posttrain.spec.document_json import DocumentError
from posttrain.spec.lockfile import EntryId, Lockfile, LockfileError, format_lock, parse_lock, salvage_lock
from posttrain.spec.record import record


@record(kw_only=True)
class LockUpdate:
    """The entries of a lock file before and after an update."""

    before: Mapping[EntryId, str]
    after: Mapping[EntryId, str]

    @property
    def added(self) -> int:
        return sum(id not in self.before for id in self.after)

    @property
    def changed(self) -> int:
        return sum(self.before.get(id, value) != value for id, value in self.after.items())

    @property
    def removed(self) -> int:
        return sum(id not in self.after for id in self.before)


def read_lock(path: Path) -> Lockfile:
    """A lock file; empty if the file does not exist. Raises `LockfileError` for an unreadable line."""
    return parse_lock(_read_text(path)) if path.exists() else Lockfile({})


def salvage_lock_file(path: Path) -> tuple[Lockfile, LockfileError | None]:
    """The readable entries of a lock file, and the error of its first unreadable line."""
    try:
        return read_lock(path), None
    except LockfileError as error:
        damage = error
    try:
        return salvage_lock(_read_text(path)), damage
    except LockfileError:  # not a text of a plausible size
        return Lockfile({}), damage


def update_lock(
    path: Path,
    before: Lockfile,
    required: Mapping[EntryId, str | None],
    on_query: QueryListener,
    *,
    upgrade: bool,
) -> LockUpdate:
    """Write the required entries. Those of `before` keep their values, unless `upgrade` resolves all again.

    Raises StepError when a query fails, and `LockfileError` when its result is not valid.
    """
    values = resolve_entries(required, {} if upgrade else before.values, on_query)
    text = format_lock(values)
    if not path.is_file() or path.read_bytes() != text.encode():
        write_text(path, text)
    return LockUpdate(before=before.values, after=values)


def _read_text(path: Path) -> str:
    try:
        return read_limited(path).decode("utf-8", "replace")
    except DocumentError as error:
        raise LockfileError(1, str(error)) from None
