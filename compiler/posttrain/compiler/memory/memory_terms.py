"""The parts of a memory estimate: a term has a name, a size and a reason; a phase has terms.

This package uses NamedTuple for types that `replace` never changes: a frozen dataclass takes six times as
long to define, and every start of the command line would pay for it.
"""

from collections.abc import Iterable
from typing import NamedTuple

GIB = 1024**3


class MemoryTerm(NamedTuple):
    name: str
    bytes: int
    why: str
    transient: bool = False  # allocated and freed within a step, so the allocator may fragment


class MemoryPhase(NamedTuple):
    """A point of a step at which the memory can be highest."""

    name: str
    terms: tuple[MemoryTerm, ...]

    @property
    def total(self) -> int:
        return sum(t.bytes for t in self.terms)


def memory_term(name: str, size: float, why: str, *, transient: bool = False) -> MemoryTerm:
    return MemoryTerm(name, round(size), why, transient)


def memory_phase(name: str, *groups: Iterable[MemoryTerm]) -> MemoryPhase:
    """Return a phase without the terms of size zero."""
    return MemoryPhase(name, tuple(t for group in groups for t in group if t.bytes > 0))


def format_gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


def format_count(number: float) -> str:
    """Return a number of parameters or tokens with a unit, for example 1.5B."""
    for unit, scale in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g}{unit}"
    return f"{number:.0f}"
