"""Mapped rows are those of the Parquet files, and few of them are in memory."""

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest

from posttrain.runtime.rows_io import read_rows, write_rows
from posttrain.runtime.training_rows import parquet_rows
from posttrain.runtime.training_rows.parquet_rows import map_rows

CALL = {"role": "assistant", "tool_calls": [{"function": {"name": "add", "arguments": {"a": 1}}}]}


def dataset(folder: Path, **parts: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    for name, rows in parts.items():
        write_rows(folder / f"{name}.parquet", rows)
    (folder / "parts.txt").write_text("\n".join(parts))
    return folder


def test_rows_are_those_of_the_files_in_order(tmp_path: Path) -> None:
    talks = [[{"role": "user", "content": str(n)}, CALL] for n in range(5)]
    rows = [{"messages": talk, "n": n, "x": n / 3, "t": None} for n, talk in enumerate(talks)]
    folder = dataset(tmp_path / "data", train=rows[:3], test=rows[3:])
    every = map_rows(folder, None, tmp_path / "cache")
    assert every.read(0, 5) == read_rows(folder)
    assert every.read(2, 4) == read_rows(folder)[2:4]
    assert map_rows(folder, "test", tmp_path / "cache").read(0, 2) == read_rows(folder, "test")
    assert list(every.values("n")) == list(range(5))
    assert list(every.values("n")) == list(range(5))


def test_the_key_is_that_of_the_content(tmp_path: Path) -> None:
    first = dataset(tmp_path / "first", all=[{"n": 1}])
    same = dataset(tmp_path / "same", all=[{"n": 1}])
    other = dataset(tmp_path / "other", all=[{"n": 2}])
    keys = [map_rows(folder, None, tmp_path / "cache").key for folder in (first, same, other)]
    assert keys[0] == keys[1] != keys[2]


def test_an_empty_dataset_has_no_rows(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    parquet.write_table(pyarrow.table({"text": pyarrow.array([], pyarrow.string())}), folder / "all.parquet")
    (folder / "parts.txt").write_text("all")
    assert len(map_rows(folder, None, tmp_path / "cache").table) == 0


def test_batches_of_long_rows_have_few_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_rows, "_BATCH_BYTES", 4000)
    folder = dataset(tmp_path / "data", all=[{"text": f"{n:1000}"} for n in range(20)])
    table = map_rows(folder, None, tmp_path / "cache").table
    sizes = [len(batch) for batch in table.to_batches()]
    assert sum(sizes) == 20
    assert max(sizes) <= 4


def test_rows_are_mapped_and_not_copied(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "data", all=[{"text": f"{n:10000}"} for n in range(1000)])
    map_rows(folder, None, tmp_path / "cache")
    before = pyarrow.total_allocated_bytes()
    table = map_rows(folder, None, tmp_path / "cache").table
    assert table.nbytes > 10_000_000
    assert pyarrow.total_allocated_bytes() - before < 100_000
