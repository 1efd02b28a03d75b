"""Data in folders and files whose names DuckDB, pyarrow or a shell would interpret."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest
from tests.hostile_names import HOSTILE_NAMES
from tests.runtime.data.build_datasets import BuiltDatasets

from posttrain.runtime.errors import StepError

SUFFIXES = {
    "jsonl",
    "ndjson",
    "json",
    "csv",
    "tsv",
    "parquet",
    "jsonl.gz",
    "json.gz",
    "csv.gz",
    "jsonl.zst",
    "csv.zst",
}
COLUMNS = {"n": "integer"}
TWICE = [{"n": 3}, {"n": 3}, {"n": 4}, {"n": 4}]
SHORT_NAMES = {key: name for key, name in HOSTILE_NAMES.items() if key != "long"}


def content(suffix: str, first: int, folder: Path) -> bytes:
    """A file of two rows, in the format of the suffix."""
    kind, _, compression = suffix.partition(".")
    values = [first, first + 1]
    if kind == "parquet":
        parquet.write_table(pyarrow.table({"n": values}), folder / "made.parquet")
        return (folder / "made.parquet").read_bytes()
    rows = [json.dumps({"n": value}) for value in values]
    cells = f"n\n{first}\n{first + 1}\n"
    texts = {"json": f"[{', '.join(rows)}]", "csv": cells, "tsv": cells}
    data = texts.get(kind, "\n".join(rows)).encode()
    match compression:
        case "gz":
            return gzip.compress(data)
        case "zst":
            return pyarrow.Codec("zstd").compress(data, asbytes=True)
        case _:
            return data


@pytest.mark.parametrize("key", HOSTILE_NAMES)
def test_a_dataset_in_a_hostile_folder_has_only_its_own_rows(tmp_path: Path, key: str):
    for sibling in ("a", "ab", "aa", "b"):  # what the name would match as a pattern
        build_steps(tmp_path / sibling, 99)
    built = build_steps(tmp_path / HOSTILE_NAMES[key], 3)
    assert built.rows("it") == built.rows("derived") == [{"n": 3}, {"n": 4}]
    assert built.rows("mixed", "test") + built.rows("mixed", "train") in ([*TWICE], [*reversed(TWICE)])


@pytest.mark.parametrize("key", SHORT_NAMES)
def test_a_file_with_a_hostile_name_in_a_hostile_folder_is_read(tmp_path: Path, key: str):
    name = SHORT_NAMES[key]
    for suffix in SUFFIXES:
        folder = tmp_path / suffix
        folder.mkdir()
        files = {f"{name}/{name}.{suffix}": content(suffix, 3, folder)}
        files |= {f"{at}/{at}.{suffix}": content(suffix, 99, folder) for at in ("a", "ab", "b")}
        source = {"files": {"path": next(iter(files)), "columns": COLUMNS}}
        assert BuiltDatasets(folder, {"it": {"from": source}}, files).rows("it") == [{"n": 3}, {"n": 4}]


@pytest.mark.parametrize("key", SHORT_NAMES)
def test_a_text_with_a_hostile_name_is_read(tmp_path: Path, key: str):
    name = SHORT_NAMES[key]
    files = {f"{name}/{name}.txt": b"mine", "a/a.txt": b"other"}
    built = BuiltDatasets(tmp_path, {"it": {"from": {"text": f"{name}/{name}.txt"}}}, files)
    assert built.rows("it") == [{"passage": "mine", "source": name, "number": 1}]


def test_an_error_of_the_database_names_the_file(tmp_path: Path):
    broken = {"it's*.jsonl.zst": pyarrow.Codec("zstd").compress(b'{"n": 1}\n{"n"', asbytes=True)}
    source = {"files": {"path": "it's*.jsonl.zst", "columns": COLUMNS}}
    with pytest.raises(StepError, match=r"it's\*\.jsonl\.zst") as caught:
        BuiltDatasets(tmp_path, {"it": {"from": source}}, broken)
    assert "/proc" not in str(caught.value)


def build_steps(folder: Path, first: int) -> BuiltDatasets:
    folder.mkdir()
    datasets: dict[str, Any] = {
        "it": {"from": {"files": "rows.jsonl"}},
        "derived": {"from": "it"},
        "mixed": {"from": "it", "steps": [{"mix": {"derived": 2}}, {"split": {"test": 2}}]},
    }
    return BuiltDatasets(folder, datasets, {"rows.jsonl": content("jsonl", first, folder)})
