"""Tables at several widths of the terminal, and in a pipe."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import click
import pytest
from tests.cli.pseudo_terminal import run_on_terminal
from tests.recipe_command import ROOT

from posttrain.cli import text_tables

HEADER = ("step", "kind", "state", "time", "memory", "cost", "key", "why")
WHY = "learning_rate changed from 1.0e-3 to 2.0e-3, and the product of data.sums has another key than before"
ROWS = [
    ("data.sums", "data", "cached", "", "", "", "1a2b3c4d5e", "in the store"),
    ("sft@model=large,rate=2e-3", "train", "run", "~1 h 20 min", "61 of 80 GB", "$12.40", "aaaabbbbcc", WHY),
]
WIDTHS = (60, 80, 110, 200)
PLAN = [
    sys.executable,
    "-X",
    "importtime",
    "-m",
    "posttrain.cli.main",
    "plan",
]


def lines_at(width: int | None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: width is not None, raising=False)
    monkeypatch.setattr(
        text_tables.shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((width or 80, 24))
    )
    return [click.unstyle(line) for line in text_tables.table_lines(HEADER, ROWS, 2)]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_table_fits_the_terminal_and_loses_nothing(width: int, monkeypatch: pytest.MonkeyPatch):
    lines = lines_at(width, monkeypatch)
    assert max(map(len, lines)) <= width
    shown = Counter(re.findall(r"\S+", " ".join(lines).replace(",", " ")))
    expected = Counter(re.findall(r"\S+", " ".join(cell for row in ROWS for cell in row).replace(",", " ")))
    assert expected <= shown
    # Text wraps at the width that it has, not one word per line.
    assert len(lines) <= {60: 7, 80: 6, 110: 6, 200: 3}[width]
    assert not any(len(line.split()) == 1 for line in lines[:-1])


@pytest.mark.parametrize("width", WIDTHS)
def test_columns_stay_aligned(width: int, monkeypatch: pytest.MonkeyPatch):
    header, first, *more = lines_at(width, monkeypatch)
    second = next(line for line in more if line.startswith("sft@"))
    place = header.index("state")
    assert first[place:].startswith("cached")
    assert second[place:].startswith("run")


def test_a_wrapped_cell_stays_in_its_column(monkeypatch: pytest.MonkeyPatch):
    lines = lines_at(130, monkeypatch)
    place = lines[0].index("why")
    assert len(lines) > 4
    assert all(line[:place].strip() == "" for line in lines[3:])
    assert " ".join(line[place:] for line in lines[2:]) == WHY


def test_a_pipe_gets_the_whole_table(monkeypatch: pytest.MonkeyPatch):
    lines = lines_at(None, monkeypatch)
    assert len(lines) == 3
    assert lines[2].endswith(WHY)


def test_a_word_that_is_wider_than_the_terminal_is_folded(monkeypatch: pytest.MonkeyPatch):
    lines = lines_at(12, monkeypatch)
    assert max(map(len, lines)) <= 12
    assert "sft@model=la" in lines


@pytest.mark.parametrize("width", WIDTHS)
def test_a_plan_fits_the_terminal(width: int, tmp_path: Path):
    command = [*PLAN, ROOT / "recipes" / "preferences", "--home", tmp_path]
    shown, _ = run_on_terminal(command, width)
    lines = shown.splitlines()
    table = lines[: next(number for number, line in enumerate(lines) if "to run" in line)]
    assert max(map(len, table)) <= width
    piped = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout
    assert max(map(len, piped.splitlines())) > 200
    assert Counter(re.findall(r"\w+", piped)) <= Counter(re.findall(r"\w+", shown))


def test_rich_is_imported_only_for_a_table_that_does_not_fit(tmp_path: Path):
    command = [*PLAN, ROOT / "recipes" / "quickstart", "--home", tmp_path]
    assert "rich.console" in run_on_terminal(command, 50)[1]
    assert "rich" not in run_on_terminal(command, 60)[1]
