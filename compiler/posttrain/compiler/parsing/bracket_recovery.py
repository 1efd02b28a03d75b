"""Reads on after a bracket that is never closed: it is closed where it was likely meant to be.

Each attempt at the tree closes one more, as long as the parser comes further with it. Of what stands about
such a bracket nothing else is said: how it is read is a guess.
"""

from collections.abc import Mapping
from typing import Protocol, Self, TypeVar

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.parsing.parse_codes import YAML_ERROR
from posttrain.compiler.text.unclosed_brackets import close_brackets, find_unclosed_brackets
from posttrain.compiler.text.yaml_errors import describe_unclosed
from posttrain.compiler.text.yaml_tree import Node
from posttrain.spec.diagnostic import Span

_MAX_RECOVERIES = 20  # brackets that are closed for the sake of what comes after them


class ParseAttempt(Protocol):
    """Of a text of a file: the tree, if there is one, and where the parser gave up over it."""

    file: str
    text: str
    # The columns of characters that are not the user's, by line.
    inserted: Mapping[int, tuple[int, ...]]
    error_position: tuple[int, int] | None

    def compose(self) -> Node | None: ...

    def original_column(self, line: int, column: int) -> int: ...

    def for_text(self, text: str, added: Mapping[int, tuple[int, ...]]) -> Self: ...


AttemptT = TypeVar("AttemptT", bound=ParseAttempt)


def recover_unclosed(
    tried: AttemptT, root: Node | None, diagnostics: Diagnostics
) -> tuple[AttemptT, Node | None]:
    """The last attempt and what it took; brackets that were closed for it are reported."""
    guesses: list[Span] = []
    while tried.error_position is not None and len(guesses) < _MAX_RECOVERIES:
        found = find_unclosed_brackets(tried.text)
        again = (
            tried.for_text(*close_brackets(tried.text, tried.inserted, found)) if found is not None else None
        )
        if again is None or found is None:
            break
        closed = again.compose()
        if again.error_position is not None and again.error_position <= tried.error_position:
            break
        span, message, help, labels = describe_unclosed(found, tried.file, tried.original_column)
        diagnostics.add_at_span(YAML_ERROR, span, message, help=help, labels=labels)
        ends = labels[-1].span
        guesses.append(Span(tried.file, found.brackets[0].line + 1, 1, ends.line, ends.column))
        tried, root = again, closed
    for guess in guesses:
        diagnostics.mark_recovered(guess)
    return tried, root
