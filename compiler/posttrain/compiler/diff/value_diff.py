"""Where two values differ: the paths at which they do, as deep as they go."""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from posttrain.spec.record import record


class Absent(Enum):
    """What stands where one of the two has nothing. It is no JSON value, so it equals none."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT
Path = tuple[str | int, ...]


@record
class Difference:
    """One place that is not the same, with what stands there before and after."""

    path: Path
    old: Any
    new: Any


def value_differences(old: Any, new: Any, path: Path = ()) -> Iterator[Difference]:
    """Every place at which `new` is not what `old` is."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from value_differences(old.get(key, ABSENT), new.get(key, ABSENT), (*path, key))
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple):
        yield from _list_differences(old, new, path)
    elif type(old) is not type(new) or old != new:
        yield Difference(path, old, new)


def _list_differences(old: Sequence[Any], new: Sequence[Any], path: Path) -> Iterator[Difference]:
    """Items are compared in pairs; where the lengths differ, what is alike at both ends is left out."""
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
    """A path as recipes and --set write it."""
    return ".".join(map(str, path))
