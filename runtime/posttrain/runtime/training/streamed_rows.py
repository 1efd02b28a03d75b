"""The rows of a stream as those of a trainer: prepared window by window, and deleted after their use."""

import subprocess
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.distributed import process_group
from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.streams.prefetch import start_prefetch
from posttrain.runtime.streams.row_stream import read_stream
from posttrain.runtime.streams.stream_files import (
    OpenedFile,
    delete_folder,
    file_folder,
    open_file,
    use_folder,
)
from posttrain.runtime.streams.stream_order import RowPlace, StreamOrder, Window, WindowLengths
from posttrain.runtime.streams.stream_windows import window_rows
from posttrain.runtime.training.trainer_dataset import RowSource
from posttrain.spec.step_params.train_params import TrainStepParams

# The extra file of a checkpoint.
_LENGTHS_FILE = "stream.json"
_FOLDER = "stream"
# The processes of a training are less than this many batches apart.
_KEPT_BATCHES = 3
# A prepared window does not need its file, but another process may be one file behind.
_KEPT_FILES = 2


class StreamedRows:
    """The rows of a stream in the order of a training of `steps` batches of `batch` rows."""

    def __init__(
        self,
        context: StepContext[TrainStepParams],
        prepare: Callable[[RowSource], Any],
        *,
        steps: int,
        batch: int,
    ) -> None:
        self._context = context
        self._product = context.inputs["data"]
        self._stream = read_stream(self._product)
        self._folder = context.work / "scratch" / _FOLDER
        self._prepare = prepare
        self._total, self._batch = steps * batch, batch
        shuffle = context.params.trl.get("train_sampling_strategy") != "sequential"
        self._order = StreamOrder(len(self._stream.files), context.params.seed, shuffle=shuffle)
        self._lengths = WindowLengths()
        self._file: tuple[int, OpenedFile] | None = None
        # The window of the last row, and the file that is downloaded ahead.
        self._trained_on: Window | None = None
        self._prefetched = set[int]()
        self._prefetch: subprocess.Popen[bytes] | None = None
        # The prepared windows that are still in use, in the order of their last use.
        self._windows = OrderedDict[Window, Any]()

    def __len__(self) -> int:
        """The number of rows that the training takes. The stream may have fewer, or more."""
        return self._total

    def __getitem__(self, place: RowPlace) -> Any:
        rows = self._prepared(place.window)
        if place.window != self._trained_on:
            self._trained_on = place.window
            self._prefetch_next(place, len(rows))
        return rows[place.row]

    def places(self) -> Iterator[RowPlace]:
        """The rows in the order of the training."""
        left = self._total
        for turn, window, rows in self._ordered_windows():
            for row in self._order.rows(turn, window, rows)[:left]:
                left -= 1
                yield RowPlace(turn, window, row, left)
            if left == 0:
                return

    def window_of(self, row: int) -> RowSource:
        """The window with the row of this number in the order."""
        end = 0
        for _, window, rows in self._ordered_windows():
            end += rows
            if end > row:
                return self._source(window)
        raise AssertionError("the order of windows has no end")

    def save(self, checkpoint: Path) -> None:
        """Add what a resumed training needs to a checkpoint."""
        atomic_io.write_json(checkpoint / _LENGTHS_FILE, self._lengths.as_json(), sync=False)

    def restore(self, checkpoint: Path) -> None:
        self._lengths = WindowLengths(atomic_io.read_json(checkpoint / _LENGTHS_FILE))

    def end_prefetch(self) -> None:
        if self._prefetch is not None:
            self._prefetch.kill()
            self._prefetch.wait()
            self._prefetch = None

    def _ordered_windows(self) -> Iterator[tuple[int, Window, int]]:
        return self._order.windows(
            self._lengths, self._count_windows, lambda window: len(self._prepared(window))
        )

    def _count_windows(self, file: int) -> int:
        return len(self._opened(file).windows)

    def _opened(self, file: int) -> OpenedFile:
        if self._file is None or self._file[0] != file:
            self._file = file, open_file(self._stream, file, self._folder)
        return self._file[1]

    def _window_folder(self, window: Window) -> Path:
        return self._folder / f"window-{window.file}-{window.number}"

    def _source(self, window: Window) -> RowSource:
        """The rows of a window after the steps of the dataset."""
        opened = self._opened(window.file)
        folder = self._window_folder(window)
        return RowSource(window_rows(self._context, self._stream, opened, window.number, folder), folder)

    def _prepared(self, window: Window) -> Any:
        """The rows of the trainer in a window."""
        if window not in self._windows:
            start, stop = self._opened(window.file).windows[window.number]
            try:
                with use_folder(self._window_folder(window)):
                    source = self._source(window)
                    rows = self._prepare(source) if len(source.rows.table) else ()
            except StepError as error:
                name = self._stream.files[window.file].path
                message = f"rows {start + 1} to {stop} of `{name}`: {error}"
                raise StepError(message, error.advice, retriable=error.retriable) from None
            self._windows[window] = rows
            self._delete_old()
        self._windows.move_to_end(window)
        return self._windows[window]

    def _delete_old(self) -> None:
        """Delete the windows and files that no process of the training needs any more."""
        earlier = list(self._windows)[:-1]
        rows = 0
        for window in reversed(earlier):
            if rows >= _KEPT_BATCHES * self._batch:
                del self._windows[window]
            else:
                rows += len(self._windows[window])
        if process_group.is_rank_zero():
            files = dict.fromkeys(window.file for window in reversed(self._windows))
            self._delete_except(
                {self._window_folder(one).name for one in self._windows}
                | {
                    file_folder(self._folder, file).name
                    for file in {*list(files)[:_KEPT_FILES], *self._prefetched}
                }
            )

    def _delete_except(self, names: set[str]) -> None:
        for folder in self._folder.iterdir():
            if folder.is_dir() and folder.name.startswith(("window-", "file-")) and folder.name not in names:
                delete_folder(folder)

    def _prefetch_next(self, place: RowPlace, rows: int) -> None:
        """Download the next file if the rest of this one does not suffice for the training."""
        file, number = place.window
        windows_left = self._lengths.windows(file, self._count_windows) - number
        following = self._order.file_after(place.turn, file)
        is_needed = rows * windows_left < place.following
        if process_group.is_rank_zero() and is_needed and following not in {file, *self._prefetched}:
            self.end_prefetch()
            self._prefetched = {following}
            self._prefetch = start_prefetch(self._product, following, self._folder)
