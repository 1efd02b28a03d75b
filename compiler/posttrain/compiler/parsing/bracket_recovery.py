"""Recovers from unclosed brackets: closes them where they were probably meant to end, and parses again.

Each attempt closes more brackets, as long as the parser gets further. Other errors in the recovered range are
not reported, because its structure is a guess.
"""

from collections.abc import Mapping
from typing import Protocol, Self, TypeVar

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.parsing.parse_codes import YAML_ERROR
from posttrain.compiler.text.unclosed_brackets import close_brackets, find_unclosed_brackets
from posttrain.compiler.text.yaml_errors import describe_unclosed
from posttrain.compiler.text.yaml_tree import Node
from posttrain.spec.diagnostic import Span

_MAX_RECOVERIES = 20  # attempts per file


class ParseAttempt(Protocol):
    """An attempt to parse a text: its tree, if any, and the position of the parser's error."""

    file: str
    text: str
    # The columns of characters that recovery inserted, by line.
    inserted: Mapping[int, tuple[int, ...]]
    error_position: tuple[int, int] | None

    def compose(self) -> Node | None: ...

    def original_column(self, line: int, column: int) -> int: ...

    def for_text(self, text: str, added: Mapping[int, tuple[int, ...]]) -> Self: ...


AttemptT = TypeVar("AttemptT", bound=ParseAttempt)


def recover_unclosed(
    tried: AttemptT, root: Node | None, diagnostics: Diagnostics
) -> tuple[AttemptT, Node | None]:
    """The last attempt and its tree. Reports the brackets that were closed."""
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
