"""A queue of the comments of a file and the empty lines before them, in text order."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_COMMENT = re.compile(r"#[^\n]*")
# Editor modelines must stay at the top of the file.
_MODELINE = re.compile(r"# *(yaml-language-server:|-\*-|vim:)")


@dataclass(frozen=True, slots=True)
class Comment:
    index: int
    line: int
    column: int
    text: str
    # Whether it is alone on its line.
    own_line: bool


class CommentQueue:
    """Returns each comment once."""

    def __init__(self, text: str, tokens: Sequence[Any]) -> None:
        self.lines = text.split("\n")
        self.pending = list(_scan_comments(text, tokens))[::-1]

    def take_trailing(self, upto: int) -> Comment | None:
        """The next comment, if it follows other text on its line."""
        if self.pending and not self.pending[-1].own_line and self.pending[-1].index < upto:
            return self.pending.pop()
        return None

    def take_until(self, upto: int, column: int = 0) -> list[str]:
        """The comments up to an index, from a column on, with "" for an empty line before one."""
        found: list[str] = []
        while self.pending and self.pending[-1].index < upto and self.pending[-1].column >= column:
            comment = self.pending.pop()
            found += ["", comment.text] if self._is_blank(comment.line - 1) else [comment.text]
        return found

    def take_above(self, mark: Any) -> list[str]:
        """The comments before a mark, and "" if there is an empty line directly above the mark."""
        first = not self.lines[mark.line][: mark.column].strip()
        return [*self.take_until(mark.index), *([""] if first and self._is_blank(mark.line - 1) else [])]

    def _is_blank(self, line: int) -> bool:
        return line >= 0 and not self.lines[line].strip()


def _scan_comments(text: str, tokens: Sequence[Any]) -> Iterator[Comment]:
    """The comments between tokens. Text inside a token that looks like a comment is not one."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    before = 0
    for token in tokens:
        for match in _COMMENT.finditer(text, before, max(before, token.start_mark.index)):
            line = bisect_right(starts, match.start()) - 1
            above = text[starts[line] : match.start()]
            yield Comment(match.start(), line, len(above), match[0].rstrip(), not above.strip())
        before = max(before, token.end_mark.index)


def split_file_header(comments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split comments into those of the file and the block directly above the first section."""
    cut = len(comments) - comments[::-1].index("") if "" in comments else 0
    while cut < len(comments) and _MODELINE.match(comments[cut]):
        cut += 1
    return list(comments[:cut]), list(comments[cut:])
