"""The words an estimate is made of: a term has a name, a size and a reason; a moment is terms.

Here and beside it NamedTuple stands for what is never changed by `replace`: a frozen dataclass
takes six times as long to define, and every start of the command pays for it.
"""

from collections.abc import Iterable
from typing import NamedTuple

GIB = 1024**3


class MemoryTerm(NamedTuple):
    name: str
    bytes: int
    why: str
    transient: bool = False  # comes and goes within a step, so that the allocator may fragment


class MemoryPhase(NamedTuple):
    """A point of a step at which memory can be largest."""

    name: str
    terms: tuple[MemoryTerm, ...]

    @property
    def total(self) -> int:
        return sum(t.bytes for t in self.terms)


def memory_term(name: str, size: float, why: str, *, passing: bool = False) -> MemoryTerm:
    return MemoryTerm(name, round(size), why, passing)


def memory_phase(name: str, *groups: Iterable[MemoryTerm]) -> MemoryPhase:
    """Terms of size zero say nothing and are left out."""
    return MemoryPhase(name, tuple(t for group in groups for t in group if t.bytes > 0))


def format_gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


def format_count(number: float) -> str:
    """A number of parameters or tokens the way people say it."""
    for unit, scale in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g}{unit}"
    return f"{number:.0f}"
