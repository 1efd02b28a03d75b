"""Runs parts of `python -m perf.cuda` on a CPU."""

import subprocess
import sys
from pathlib import Path

from perf.cuda.results import PartResult, Table, read_results
from tests.recipe_command import ROOT


def run_parts(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perf.cuda", *arguments, "--dry", "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def run_dry(part: str, out: Path) -> PartResult:
    """Run one part, which must not fail."""
    done = run_parts(out, part)
    found = read_results(out)[part]
    assert done.returncode == 0, f"{found.error}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert found.error == ""
    page = (out / f"{part}.md").read_text()
    assert "measures nothing" in page
    assert all(f"## {table.title}" in page for table in found.tables)
    return found


def table(result: PartResult, title: str) -> Table:
    return next(one for one in result.tables if one.title == title)


def cells(found: Table, column: str) -> dict[str, str]:
    """The cells of a column by the first cell of their row."""
    place = found.head.index(column)
    return {row[0]: row[place] for row in found.rows}
