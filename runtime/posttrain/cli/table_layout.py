"""Lays out a table that is wider than the terminal, with rich.

The last column wraps. If it would become too narrow, the columns that do not fit move to a line under each
row.
"""

from collections.abc import Mapping, Sequence

import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

_MIN_WRAPPED_WIDTH = 24
_GAP, _INDENT = "  ", "    "


def fit_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    state: int | None,
    colors: Mapping[str, str],
    width: int,
) -> list[str]:
    """The lines of a table for a terminal of this width."""
    widths = [max(cell_len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    count = _fitting_columns(widths, width)
    widths = [*widths[: count - 1], width - sum(widths[: count - 1]) - len(_GAP) * (count - 1)]
    lines = [click.style(line, bold=True) for line in _row_lines(header[:count], widths, None, None)]
    for row in rows:
        color = None if state is None else colors.get(row[state])
        lines += _row_lines(row[:count], widths, state, color)
        rest = [f"{name}: {cell}" for name, cell in zip(header[count:], row[count:], strict=True) if cell]
        lines += [_INDENT + line for line in _wrap(", ".join(rest), width - len(_INDENT)) if rest]
    return lines


def _fitting_columns(widths: Sequence[int], width: int) -> int:
    """How many of the first columns fit side by side. The last of all columns can wrap."""
    for count in range(len(widths), 1, -1):
        last = widths[count - 1]
        if count == len(widths):
            last = min(last, _MIN_WRAPPED_WIDTH)
        if sum(widths[: count - 1]) + len(_GAP) * (count - 1) + last <= width:
            return count
    return 1


def _row_lines(
    cells: Sequence[str], widths: Sequence[int], state: int | None, color: str | None
) -> list[str]:
    """The cells side by side. The last one wraps."""
    sized = [set_cell_size(cell, width) for cell, width in zip(cells[:-1], widths, strict=False)]
    if state is not None and state < len(sized):
        sized[state] = click.style(sized[state], fg=color)
    first, *more = _wrap(cells[-1], widths[-1])
    indent = " " * sum(width + len(_GAP) for width in widths[:-1])
    return [_GAP.join([*sized, first]).rstrip(), *(indent + line for line in more)]


def _wrap(text: str, width: int) -> list[str]:
    if cell_len(text) <= width:
        return [text]
    return [line.plain.rstrip() for line in Text(text).wrap(_CONSOLE, max(1, width), overflow="fold")]


_CONSOLE = Console()
