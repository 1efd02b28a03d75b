"""What `recipe.lock` is: what a recipe's names stood for when it was locked, one entry a line, sorted.

A line is a JSON list of three texts: kind, name, value.

    model    ORG/NAME@REVISION    the commit that the revision stood for
    dataset  ORG/NAME@REVISION    the same, for rows of the hub
    file     PATH                 the sha256 of a file beside the recipe
    image    NAME@DIGEST          the digest of each platform in it, as OS/CPU=DIGEST
    image    NAME:TAG             the digest that the tag stood for, then those of its platforms
    stack    DISTRIBUTION         the version that does the work

Lines may stand in any order and more than once, so that a merge which keeps the lines of both sides
gives a lock again, or one in which two lines contradict each other, which is refused.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import field

from posttrain.spec.record import record

FORMAT = 1
HEADER = (
    f"# recipe.lock {FORMAT}, written by `recipe lock`, checked by `recipe lock --check`."
    " Git merges it line by line with `*.lock merge=union` in .gitattributes."
)
_CONFLICT_MARKERS = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")
# The kind and the name of an entry.
EntryId = tuple[str, str]


class LockfileError(ValueError):
    """A text that is no lock: what is wrong, and in which line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@record
class Lockfile:
    """The values of a lock, and the lines that they stand in."""

    values: Mapping[EntryId, str]
    lines: Mapping[EntryId, int] = field(default_factory=dict[EntryId, int])


def format_lock(values: Mapping[EntryId, str]) -> str:
    """The lock's canonical text."""
    lines = sorted(_format_line(kind, name, value) for (kind, name), value in values.items())
    return "\n".join([HEADER, *lines]) + "\n"


def _format_line(*parts: str) -> str:
    return json.dumps(parts, ensure_ascii=False)


def parse_lock(text: str) -> Lockfile:
    """Read a lock. Raises `BadLock`."""
    lines = _split_lines(text)
    if not lines[0].startswith(f"# recipe.lock {FORMAT},"):
        raise LockfileError(1, _header_error(lines[:1]))
    values: dict[EntryId, str] = {}
    places: dict[EntryId, int] = {}
    for number, line in _entries(lines):
        kind, name, value = _parse_line(line, number)
        if values.setdefault((kind, name), value) != value:
            raise LockfileError(number, f"two lines give different values for the {kind} `{name}`")
        places.setdefault((kind, name), number)
    return Lockfile(values, places)


def salvage_lock(text: str) -> Lockfile:
    """What can be read of a damaged lock, without what it contradicts itself about."""
    values: dict[EntryId, str] = {}
    disputed: set[EntryId] = set()
    for number, line in _entries(_split_lines(text)):
        try:
            kind, name, value = _parse_line(line, number)
        except LockfileError:
            continue
        if values.setdefault((kind, name), value) != value:
            disputed.add((kind, name))
    return Lockfile({id: value for id, value in values.items() if id not in disputed})


def _split_lines(text: str) -> list[str]:
    """The lines, as JSON sees them: other separators than line feeds may stand inside a text."""
    return [line.rstrip("\r") for line in text.split("\n")]


def _header_error(first: Iterable[str]) -> str:
    if any(line.startswith("# recipe.lock ") for line in first):
        return "this lock has the form of another release"
    if any(line.startswith(_CONFLICT_MARKERS) for line in first):
        return "a merge left a conflict here"
    return "this is no lock: its first line is another"


def _entries(lines: list[str]) -> Iterable[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(lines, 1) if line.strip() and line[0] != "#")


def _parse_line(line: str, number: int) -> tuple[str, str, str]:
    if line.startswith(_CONFLICT_MARKERS):
        raise LockfileError(number, "a merge left a conflict here")
    try:
        kind, name, value = json.loads(line)
    except (ValueError, TypeError, RecursionError):
        raise LockfileError(number, "this line is no entry") from None
    if not (isinstance(kind, str) and isinstance(name, str) and isinstance(value, str)):
        raise LockfileError(number, "this line is no entry")
    return kind, name, value
