"""Runs a function on parts of the rows, in several processes.

The processes are forks: they share the tokenizer, the tables and the imported modules of this process, so
they need little memory of their own. They write rows into files, and return only what a caller merges.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.machine import available_cpus
from posttrain.runtime.process_tree import die_with_parent
from posttrain.runtime.step_context import StopRequest

T = TypeVar("T")
# A start of processes takes longer than the work on fewer rows, or fewer bytes.
_SMALL_ROWS, _SMALL_BYTES = 5_000, 8 << 20
# Each process has the rows of a batch as Python objects.
_MAX_WORKERS = 8
_PARTS_PER_WORKER = 4
_MAX_PARTS = 256
_PART_BYTES = 64 << 20
# What a batch of rows may have at most.
_BATCH_ROWS, _BATCH_BYTES = 1_000, 4 << 20

Range = tuple[int, int]
# The function of the pool. The forks inherit it, so that it needs no pickling.
_inherited: list[Callable[[int], Any]] = []


def worker_count(rows: int, size: int) -> int:
    """The number of processes for rows with `size` bytes."""
    if rows <= _SMALL_ROWS and size <= _SMALL_BYTES:
        return 1
    return max(1, min(available_cpus(), _MAX_WORKERS, rows))


def split_rows(rows: int, size: int, multiple: int = 1) -> list[Range]:
    """Ranges of about equal numbers of rows, which start at multiples of `multiple`."""
    workers = worker_count(rows, size)
    parts = (
        1 if workers == 1 and size <= _PART_BYTES else max(workers * _PARTS_PER_WORKER, size // _PART_BYTES)
    )
    length = -(-rows // min(parts, _MAX_PARTS))
    length = -(-length // multiple) * multiple
    return [(start, min(start + length, rows)) for start in range(0, rows, max(length, 1))]


def row_batches(table: Any, start: int, stop: int, multiple: int = 1) -> Iterator[Range]:
    """Ranges of rows between `start` and `stop` with a bounded number of rows and bytes.

    They have multiples of `multiple` rows, except the last one. Fewer rows are not split, however long.
    """
    while start < stop:
        units = max(1, _BATCH_ROWS // multiple)
        while units > 1 and table.slice(start, min(units * multiple, stop - start)).nbytes > _BATCH_BYTES:
            units //= 2
        count = min(units * multiple, stop - start)
        yield start, start + count
        start += count


def run_parts(task: Callable[[int], T], count: int, workers: int, stop: StopRequest | None = None) -> list[T]:
    """The results of `task(0)` to `task(count - 1)`, in order.

    Raises the StepError of the first part that has one, and Interrupted on a request to stop.
    """
    results: list[T] = []
    found = (_attempt(task, number) for number in range(count))
    for result in found if workers == 1 or count == 1 else _run_forks(task, count, min(workers, count)):
        if isinstance(result, StepError):
            raise result
        results.append(result)
        if stop is not None and stop.requested:
            raise Interrupted
    return results


def _run_forks(task: Callable[[int], Any], count: int, workers: int) -> Iterator[Any]:
    _inherited.append(task)
    pool = ProcessPoolExecutor(
        workers, multiprocessing.get_context("fork"), initializer=_start_worker, initargs=(os.getpid(),)
    )
    try:
        yield from pool.map(_run_part, range(count))
    except BrokenProcessPool:
        raise StepError(
            "a process that prepares the rows was killed before it had finished",
            "if the machine ran out of memory, give the stage more of it, or fewer CPUs: each of them has a"
            " process with a batch of rows",
            retriable=True,
        ) from None
    finally:
        _inherited.remove(task)
        pool.shutdown(cancel_futures=True)


def _start_worker(parent: int) -> None:
    die_with_parent(parent)
    for number in (signal.SIGTERM, signal.SIGINT):  # the parent ends its processes
        signal.signal(number, signal.SIG_IGN)
    # Each process uses one core.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def _run_part(number: int) -> Any:
    return _attempt(_inherited[-1], number)


def _attempt(task: Callable[[int], Any], number: int) -> Any:
    """The result of a part, or its StepError: a pickled exception would lose the advice."""
    try:
        return task(number)
    except StepError as error:
        return _Portable(error)


class _Portable(StepError):
    """A StepError that can be pickled."""

    def __init__(self, error: StepError) -> None:
        super().__init__(str(error), error.advice, retriable=error.retriable, details=error.details)

    def __reduce__(self) -> Any:
        return _restore, (str(self), self.advice, self.retriable, self.details)


def _restore(message: str, advice: str, retriable: bool, details: str) -> StepError:
    return StepError(message, advice, retriable=retriable, details=details)
