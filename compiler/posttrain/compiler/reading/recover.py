"""Reads on after a bracket that is never closed: it is closed where it was likely meant to be.

Each attempt at the tree closes one more, as long as the parser comes further with it. Of what stands about
such a bracket nothing else is said: how it is read is a guess.
"""

from collections.abc import Mapping
from typing import Protocol, Self, TypeVar

from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.reading.codes import YAML_ERROR
from posttrain.compiler.text.brackets import close, first_unclosed
from posttrain.compiler.text.tree import Node
from posttrain.compiler.text.unreadable import never_closed
from posttrain.spec.diagnostic import Span

_MOST = 20  # brackets that are closed for the sake of what comes after them


class Attempt(Protocol):
    """Of a text of a file: the tree, if there is one, and where the parser gave up over it."""

    file: str
    text: str
    # The columns of characters that are not the user's, by line.
    added: Mapping[int, tuple[int, ...]]
    broken: tuple[int, int] | None

    def attempt(self) -> Node | None: ...

    def given(self, line: int, column: int) -> int: ...

    def anew(self, text: str, added: Mapping[int, tuple[int, ...]]) -> Self: ...


A = TypeVar("A", bound=Attempt)


def further(tried: A, root: Node | None, findings: Findings) -> tuple[A, Node | None]:
    """The last attempt and what it took; brackets that were closed for it are reported."""
    guesses: list[Span] = []
    while tried.broken is not None and len(guesses) < _MOST:
        found = first_unclosed(tried.text)
        again = tried.anew(*close(tried.text, tried.added, found)) if found is not None else None
        if again is None or found is None:
            break
        closed = again.attempt()
        if again.broken is not None and again.broken <= tried.broken:
            break
        span, message, help, labels = never_closed(found, tried.file, tried.given)
        findings.at_span(YAML_ERROR, span, message, help=help, labels=labels)
        ends = labels[-1].span
        guesses.append(Span(tried.file, found.brackets[0].line + 1, 1, ends.line, ends.column))
        tried, root = again, closed
    for guess in guesses:
        findings.guess(guess)
    return tried, root
