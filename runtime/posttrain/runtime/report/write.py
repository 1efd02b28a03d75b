"""Writes the report of a run beside its plan and its journal."""

from pathlib import Path

from posttrain.runtime import durable
from posttrain.runtime.keeping.home import Home
from posttrain.runtime.report.collect import read_run
from posttrain.runtime.report.page import render_page

REPORT_FILE = "report.html"


def write_report(home: Home, run: Path, to: Path | None = None) -> Path:
    """Write the page anew, whole or not at all; gives where it lies."""
    path = to or run / REPORT_FILE
    durable.write_text(path, render_page(read_run(home, run)))
    return path
