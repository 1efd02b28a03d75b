"""Renders the page of a diagnostic code."""

import difflib
import textwrap
from collections.abc import Sequence

from posttrain.spec.diagnostic import Code

_CONTEXT_LINES = 1


def render_code_page(code: Code, level: int = 1) -> str:
    """The page that `recipe explain CODE` prints, as Markdown.

    The example is a diff from the wrong recipe to the right one, with context lines.
    """
    blocks = [
        f"{'#' * level} {code.id}: {code.title}",
        f"Severity: {code.severity}",
        textwrap.fill(code.page, 100),
        _fenced("diff", change_lines(code.wrong, code.right)),
    ]
    for path, text in code.files:
        blocks += [f"With `{path}` in the recipe's folder:", _fenced("", text.rstrip().splitlines())]
    return "\n\n".join(blocks) + "\n"


def change_lines(wrong: str, right: str) -> list[str]:
    """The lines of a diff: the change, its context, and the enclosing keys."""
    before, after = wrong.splitlines(), right.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    lines: list[str] = []
    shown = 0  # the lines of `before` that are already shown or skipped
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        start = group[0][1]
        enclosing = [number for number in _enclosing_lines(before, start) if number >= shown]
        for number in (*enclosing, start):
            if number > shown:
                lines.append(" ...")
            if number != start:
                lines.append(f" {before[number]}")
                shown = number + 1
            else:
                shown = start
        lines += _hunk_lines(group, before, after)
        shown = group[-1][2]
    if shown < len(before):
        lines.append(" ...")
    return lines


def _hunk_lines(
    group: Sequence[tuple[str, int, int, int, int]], before: Sequence[str], after: Sequence[str]
) -> list[str]:
    lines: list[str] = []
    for tag, first, last, to_first, to_last in group:
        if tag == "equal":
            lines += [f" {line}" for line in before[first:last]]
        else:
            lines += [f"-{line}" for line in before[first:last]]
            lines += [f"+{line}" for line in after[to_first:to_last]]
    return lines


def _enclosing_lines(lines: Sequence[str], start: int) -> list[int]:
    """The lines with the keys of the enclosing mappings, outermost first."""
    found: list[int] = []
    depth = _indent(lines[start]) if start < len(lines) else 0
    for number in range(start - 1, -1, -1):
        if lines[number].strip() and _indent(lines[number]) < depth:
            depth = _indent(lines[number])
            found.append(number)
    return found[::-1]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _fenced(language: str, lines: Sequence[str]) -> str:
    return "\n".join([f"```{language}", *lines, "```"])
