"""Writes the report of a run to its run folder."""

from pathlib import Path

from posttrain.runtime import atomic_io
from posttrain.runtime.report.page import render_page
from posttrain.runtime.report.run_reader import read_run
from posttrain.runtime.store.home import Home

REPORT_FILE = "report.html"


def write_report(home: Home, run: Path, to: Path | None = None) -> Path:
    """Write the report atomically, over an earlier one, and return its path."""
    path = to or run / REPORT_FILE
    atomic_io.write_text(path, render_page(read_run(home, run)))
    return path
