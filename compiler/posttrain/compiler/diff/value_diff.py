"""Compares two JSON values recursively, and returns the paths at which they differ."""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from posttrain.spec.record import record


class Absent(Enum):
    """A marker for a missing value. It is different from every JSON value."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT
Path = tuple[str | int, ...]


@record
class Difference:
    """A path with its old and new value."""

    path: Path
    old: Any
    new: Any


def value_differences(old: Any, new: Any, path: Path = ()) -> Iterator[Difference]:
    """The differences between `old` and `new`."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from value_differences(old.get(key, ABSENT), new.get(key, ABSENT), (*path, key))
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple):
        yield from _list_differences(old, new, path)
    elif type(old) is not type(new) or old != new:
        yield Difference(path, old, new)


def _list_differences(old: Sequence[Any], new: Sequence[Any], path: Path) -> Iterator[Difference]:
    """Compare items in pairs. If the lengths differ, equal items at both ends are skipped first."""
    start, end = 0, 0
    if len(old) != len(new):
        most = min(len(old), len(new))
        while start < most and _is_same(old[start], new[start]):
            start += 1
        while end < most - start and _is_same(old[-1 - end], new[-1 - end]):
            end += 1
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    for index in range(max(len(before), len(after))):
        was = before[index] if index < len(before) else ABSENT
        now = after[index] if index < len(after) else ABSENT
        yield from value_differences(was, now, (*path, start + index))


def _is_same(old: Any, new: Any) -> bool:
    return next(value_differences(old, new), None) is None


def dotted_path(path: Path) -> str:
    """A path in dotted notation, as --set takes it."""
    return ".".join(map(str, path))
