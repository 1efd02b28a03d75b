"""The order of the rows of a stream, and the number of rows of each window that has been opened."""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from posttrain.runtime.errors import StepError
from posttrain.spec.keys import digest


class Window(NamedTuple):
    """A window, by the number of its file and its number in the file."""

    file: int
    number: int


class RowPlace(NamedTuple):
    """A row of a training: its pass over the stream, its window, its number there, and how many follow."""

    turn: int
    window: Window
    row: int
    following: int


class WindowLengths:
    """The numbers of trained rows of the windows of each file. They are known once a window is prepared.

    A checkpoint has them, so that a resumed training skips to its row without the files before it.
    """

    def __init__(self, recorded: dict[str, list[int | None]] | None = None) -> None:
        self._files = {int(file): list(lengths) for file, lengths in (recorded or {}).items()}

    def as_json(self) -> dict[str, list[int | None]]:
        return {str(file): lengths for file, lengths in sorted(self._files.items())}

    def windows(self, file: int, measure: Callable[[int], int]) -> int:
        """The number of windows of a file; `measure` opens a file of which it is unknown."""
        if file not in self._files:
            self._files[file] = [None] * measure(file)
        return len(self._files[file])

    def rows(self, window: Window, measure: Callable[[Window], int]) -> int:
        """The number of rows of a window; `measure` prepares a window of which it is unknown."""
        lengths = self._files[window.file]
        found = lengths[window.number]
        if found is None:
            found = lengths[window.number] = measure(window)
        return found


class StreamOrder:
    """The windows of a stream, again and again, in an order that depends on the seed only."""

    def __init__(self, files: int, seed: int, *, shuffle: bool) -> None:
        self._files = files
        self._seed = seed
        self._shuffle = shuffle

    def windows(
        self, lengths: WindowLengths, measure_file: Callable[[int], int], measure: Callable[[Window], int]
    ) -> Iterator[tuple[int, Window, int]]:
        """Yield the number of the pass, the window, and its number of rows."""
        for turn in count():
            rows = 0
            for file in self._shuffled(self._files, turn):
                for each in range(lengths.windows(file, measure_file)):
                    window = Window(file, each)
                    found = lengths.rows(window, measure)
                    rows += found
                    yield turn, window, found
            if rows == 0:
                raise StepError(
                    "no row of the streamed dataset is left to train on",
                    "check the steps of the dataset: one of them may drop every row",
                )

    def rows(self, turn: int, window: Window, rows: int) -> Sequence[int]:
        """The order of the rows of a window in a pass."""
        return self._shuffled(rows, turn, *window)

    def file_after(self, turn: int, file: int) -> int:
        """The file that follows a file in a pass, or that starts the next pass."""
        order = self._shuffled(self._files, turn)
        place = order.index(file) + 1
        return order[place] if place < len(order) else self._shuffled(self._files, turn + 1)[0]

    def _shuffled(self, size: int, *place: int) -> Sequence[int]:
        if not self._shuffle:
            return range(size)
        order = list(range(size))
        random.Random(int(digest([self._seed, *place])[:15], 16)).shuffle(order)
        return order
