"""Maps the characters of a line to terminal columns. Tabs and wide characters take several columns."""

import unicodedata
from dataclasses import dataclass

TAB_WIDTH = 4


@dataclass(frozen=True, slots=True)
class DisplayLine:
    """A printable line: its characters, and the terminal column at which each one starts."""

    cells: tuple[str, ...]
    starts: tuple[int, ...]

    @property
    def text(self) -> str:
        return "".join(self.cells)

    @property
    def width(self) -> int:
        return self.starts[-1]

    def display_column(self, column: int) -> int:
        """The terminal column of a source column, which counts from 1 and may be beyond the end."""
        beyond = max(0, column - len(self.starts))
        return self.starts[min(column, len(self.starts)) - 1] + beyond


def display_line(line: str) -> DisplayLine:
    if line.isascii() and line.isprintable():
        return DisplayLine(tuple(line), tuple(range(len(line) + 1)))
    cells: list[str] = []
    starts = [0]
    for character in line:
        printed, width = _display_cell(character, starts[-1])
        cells.append(printed)
        starts.append(starts[-1] + width)
    return DisplayLine(tuple(cells), tuple(starts))


def _display_cell(character: str, place: int) -> tuple[str, int]:
    if character == "\t":
        width = TAB_WIDTH - place % TAB_WIDTH
        return " " * width, width
    if character < " " or character == "\x7f":  # as a symbol: the real character would move the cursor
        return chr(0x2421 if character == "\x7f" else 0x2400 + ord(character)), 1
    category = unicodedata.category(character)
    if category in ("Cc", "Cf", "Zl", "Zp", "Cs"):  # includes characters that reverse text
        return "\ufffd", 1
    if category in ("Mn", "Me"):
        return character, 0
    return character, 2 if unicodedata.east_asian_width(character) in "WF" else 1


def truncate_line(line: DisplayLine, first: int, last: int, width: int) -> tuple[str, int]:
    """The part of a line around the columns `first` to `last`, and the offset of its columns."""
    if line.width <= width:
        return line.text, 0
    room = width - 6  # for an ellipsis on either side
    left = 0 if last <= room else min(max(0, first - room // 3), line.width - room)
    visible = [i for i, start in enumerate(line.starts[:-1]) if left <= start < left + room]
    before = "..." if visible[0] else ""
    after = "..." if visible[-1] + 1 < len(line.cells) else ""
    text = "".join(line.cells[i] for i in visible)
    return f"{before}{text}{after}", len(before) - line.starts[visible[0]]
