"""Text in Markdown. A comment shows values of recipes that anyone can propose, so none becomes markup."""

import re
from collections.abc import Iterable, Iterator, Sequence


def code_span(text: str) -> str:
    """Text in a code span, in which GitHub shows no markup, HTML or mention."""
    text = " ".join(text.split()) or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    padding = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{padding}{text}{padding}{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table. A bar in a cell is escaped, which also works in code spans."""
    yield _row(header)
    yield _row(["---"] * len(header))
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def folded(summary: str, lines: Iterable[str]) -> Iterator[str]:
    """A part that a reader unfolds. `summary` is no user text."""
    yield f"<details><summary>{summary}</summary>"
    yield ""
    yield from lines
    yield ""
    yield "</details>"
