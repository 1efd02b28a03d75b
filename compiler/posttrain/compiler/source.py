"""What the compiler is given: text, and a way to read the files beside it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from posttrain.spec.extension import Catalog


@dataclass(frozen=True, slots=True)
class Source:
    """A recipe file: the name that diagnostics print, and its bytes."""

    name: str
    data: bytes


# Reads a file beside the recipe by relative path; None when there is none.
ReadFile = Callable[[str], bytes | None]


@dataclass(frozen=True, kw_only=True)
class Request:
    """All that a compilation depends on. The same request gives the same outcome, anywhere."""

    source: Source
    catalog: Catalog
    read: ReadFile
    # Versions of the distributions that run the steps, by name.
    stack: Mapping[str, str] = field(default_factory=dict[str, str])
    profiles: tuple[str, ...] = ()
    # --set PATH=TEXT, in the order given.
    settings: tuple[tuple[str, str], ...] = ()


Plain = Any
