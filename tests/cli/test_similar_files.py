"""A missing file: the file in the same folder that was meant."""

from pathlib import Path

import pytest

from posttrain.cli.compile import compile_file

NEIGHBORS = (
    "rows.jsonl",
    "rows.csv",
    "train.parquet",
    "chat.jinja",
    "recipe.jsonl",
    ".hidden.jsonl",
    "x.jsonl",
)


def missing_file_help(folder: Path, name: str) -> str:
    (folder / "recipe.yaml").write_text(
        f"{{recipe: 1, name: missing, datasets: {{d: {{from: {{files: [{name}]}}}}}}}}"
    )
    (found,) = [
        one for one in compile_file(folder / "recipe.yaml", (), ())[0].diagnostics if one.code == "PT0409"
    ]
    return found.help


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data" / "train.jsonl").mkdir(parents=True)  # a folder with the name of a file
    for name in NEIGHBORS:
        (tmp_path / name).touch()
        (tmp_path / "data" / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("row.jsonl", "rows.jsonl"),
        ("Rows.jsonl", "rows.jsonl"),
        ("rows.json", "rows.jsonl"),
        ("data/row.csv", "data/rows.csv"),
        ("./row.jsonl", "rows.jsonl"),
        ("trian.parquet", "train.parquet"),
    ],
)
def test_a_similar_file_is_suggested(folder: Path, name: str, meant: str) -> None:
    assert missing_file_help(folder, name) == f"did you mean `{meant}`?"


@pytest.mark.parametrize(
    "name",
    ["chat.jsonl", "train.jsonl.gz", "hidden.jsonl", "y.jsonl", "elsewhere/rows.jsonl", "other.parquet"],
)
def test_a_different_file_is_not(folder: Path, name: str) -> None:
    assert missing_file_help(folder, name) == "the file must be in the recipe's folder"


def test_files_outside_of_the_folder_are_not_listed(folder: Path) -> None:
    (folder / "recipes").mkdir()
    (folder / "recipes" / "link").symlink_to(folder / "data")
    assert missing_file_help(folder / "recipes", "link/row.jsonl") == "copy the file into the recipe's folder"
