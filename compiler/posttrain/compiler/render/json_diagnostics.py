"""Renders diagnostics as JSON for programs. Incompatible changes increment `version`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.spec.diagnostic import Diagnostic, Span

FORMAT_VERSION = 1
_SEVERITIES = ("error", "warning", "note")


def render_json(diagnostics: Sequence[Diagnostic], names: Mapping[str, str]) -> str:
    """One object with the diagnostics and the count of each severity."""
    value = {
        "version": FORMAT_VERSION,
        "diagnostics": [_diagnostic_json(diagnostic, names) for diagnostic in diagnostics],
        "counts": {s: sum(d.severity == s for d in diagnostics) for s in _SEVERITIES},
    }
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _diagnostic_json(found: Diagnostic, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "code": found.code,
        "severity": found.severity,
        "message": found.message,
        "span": _span_json(found.span, names),
        "labels": [{"span": _span_json(label.span, names), "text": label.text} for label in found.labels],
        "help": found.help,
        "profiles": list(found.profiles),
        "edits": [
            {"span": _span_json(edit.span, names), "text": edit.text} for edit in (found.edit,) if edit
        ],
    }


def _span_json(span: Span, names: Mapping[str, str]) -> dict[str, str | int]:
    return {
        "file": names.get(span.file, span.file),
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }
