"""Prints the findings of the preflight, as text and as JSON."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from posttrain.cli.compile import display_path, use_color
from posttrain.runtime.preflight.finding import Finding

_COLORS = {"error": "red", "warning": "yellow"}


def print_findings(findings: Sequence[Finding], folder: Path) -> None:
    """Print the findings to standard error; `folder` is that of the recipe."""
    for one in findings:
        click.echo(_finding_text(one, folder), err=True, color=use_color(sys.stderr))
    counts = [(sum(one.severity == name for one in findings), name) for name in _COLORS]
    click.echo(", ".join(_pluralize(count, name) for count, name in counts if count), err=True)


def findings_document(findings: Sequence[Finding]) -> str:
    """The findings as a JSON document."""
    listed = [asdict(one) | {"place": one.place.model_dump()} for one in findings]
    return json.dumps({"findings": listed}, indent=1, ensure_ascii=False) + "\n"


def _finding_text(one: Finding, folder: Path) -> str:
    place = one.place
    where = f"{display_path(folder / place.file)}:{place.line}:{place.column}"
    title = click.style(f"{one.severity}[{one.check}]", fg=_COLORS[one.severity], bold=True)
    lines = [f"{title}: {one.cause}", f"  --> {where}, for {', '.join(one.steps)}"]
    return "\n".join([*lines, f"   = help: {one.advice}", ""])


def _pluralize(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
