"""Shares a limit of samples among kinds of samples."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

_Kind = TypeVar("_Kind", bound=Hashable)


def fair_shares(counts: Mapping[_Kind, int], most: int) -> dict[_Kind, int]:
    """How many of each kind to show: all of the rare ones, and equal parts of the others."""
    found: dict[_Kind, int] = {}
    for place, (kind, count) in enumerate(sorted(counts.items(), key=lambda one: one[1])):
        found[kind] = min(count, (most - sum(found.values())) // (len(counts) - place))
    return found
