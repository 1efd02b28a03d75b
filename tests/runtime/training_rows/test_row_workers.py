"""Parts of rows are processed in order, whatever the number of processes; a lost process is an error."""

import os
import signal
from typing import Any

import pyarrow
import pytest

from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.step_context import StopRequest
from posttrain.runtime.training_rows import row_workers
from posttrain.runtime.training_rows.row_workers import row_batches, run_parts, split_rows, worker_count

MB = 1 << 20


@pytest.mark.parametrize("workers", [1, 3])
def test_results_are_in_order(workers: int) -> None:
    assert run_parts(lambda number: number * number, 10, workers) == [n * n for n in range(10)]


def test_several_processes_work() -> None:
    assert os.getpid() not in run_parts(lambda _: os.getpid(), 4, 2)
    assert run_parts(lambda _: os.getpid(), 4, 1) == [os.getpid()] * 4


@pytest.mark.parametrize("workers", [1, 2])
def test_the_error_is_that_of_the_first_part(workers: int) -> None:
    def task(number: int) -> int:
        if number in (2, 3):
            raise StepError(f"row {number}", "correct it", retriable=True, details="more")
        return number

    with pytest.raises(StepError, match="row 2") as caught:
        run_parts(task, 6, workers)
    error = caught.value
    assert (error.advice, error.retriable, error.details) == ("correct it", True, "more")


def test_other_errors_are_not_hidden() -> None:
    def task(number: int) -> int:
        return 1 // (number - 1)

    with pytest.raises(ZeroDivisionError):
        run_parts(task, 4, 2)


def test_a_killed_process_is_reported() -> None:
    def task(number: int) -> int:
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with pytest.raises(StepError, match="was killed") as caught:
        run_parts(task, 4, 2)
    assert "memory" in caught.value.advice


@pytest.mark.parametrize("workers", [1, 2])
def test_a_request_to_stop_ends_the_work(workers: int) -> None:
    with pytest.raises(Interrupted):
        run_parts(lambda number: number, 100, workers, StopRequest(requested=True))


def test_a_task_can_split_its_own_rows() -> None:
    """KTO's pairing follows the tokenization in the same process."""
    assert run_parts(lambda a: sum(run_parts(lambda b: a * b, 3, 1)), 3, 2) == [0, 3, 6]


def test_small_data_starts_no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_workers, "available_cpus", lambda: 16)
    assert worker_count(5_000, MB) == 1
    assert worker_count(100_000, MB) == 8
    assert worker_count(2, 100 * MB) == 2
    monkeypatch.setattr(row_workers, "available_cpus", lambda: 2)
    assert worker_count(100_000, MB) == 2


@pytest.mark.parametrize(("rows", "size", "multiple"), [(10, 1, 1), (100_000, MB, 7), (10**6, 10**11, 1000)])
def test_ranges_cover_all_rows(rows: int, size: int, multiple: int) -> None:
    ranges = split_rows(rows, size, multiple)
    assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges[:-1])]
    assert ranges[-1][1] == rows
    assert all(start % multiple == 0 for start, _ in ranges)
    assert len(ranges) <= 256


def batches(lengths: list[int], multiple: int = 1) -> list[tuple[int, int]]:
    table: Any = pyarrow.table({"text": ["x" * length for length in lengths]})
    return list(row_batches(table, 0, len(lengths), multiple))


def test_batches_of_long_rows_have_few_rows() -> None:
    assert batches([10] * 2500) == [(0, 1000), (1000, 2000), (2000, 2500)]
    found = batches([3 * MB] * 4)
    assert found == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert batches([3 * MB] * 4, 3) == [(0, 3), (3, 4)]
    mixed = batches([10] * 600 + [3 * MB] * 3)
    assert [start for start, _ in mixed] == [0, *(stop for _, stop in mixed[:-1])]
    assert all(stop - start == 1 for start, stop in mixed if start >= 601)


def test_the_cores_are_those_of_the_container(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from posttrain.runtime.machine import available_cpus

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert available_cpus(tmp_path) == 8
    for text, cores in {"max 100000": 8, "250000 100000": 2, "50000 100000": 1, "1600000 100000": 8}.items():
        (tmp_path / "cpu.max").write_text(f"{text}\n")
        assert available_cpus(tmp_path) == cores
