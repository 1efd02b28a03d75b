"""Renders diagnostics as SARIF 2.1.0 for code scanning."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.compiler.render.code_page import render_code_page
from posttrain.spec.diagnostic import Code, Diagnostic, Edit, Label, Span, profiles_note
from posttrain.spec.version import VERSION

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_UNRESERVED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/")
FileNames = Mapping[str, str]


def render_sarif(
    diagnostics: Sequence[Diagnostic], names: FileNames, codes: Mapping[str, Code], recipe: str
) -> str:
    """A log of one run. Errors in command-line options have the location of the recipe."""
    used = sorted({found.code for found in diagnostics})
    results = [_result(found, used.index(found.code), names, recipe) for found in diagnostics]
    driver = {
        "name": "posttrain",
        "semanticVersion": VERSION,
        "rules": [_rule(codes[code]) for code in used],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _rule(code: Code) -> dict[str, Any]:
    return {
        "id": code.id,
        "shortDescription": {"text": code.title},
        "fullDescription": {"text": code.page},
        "help": {"text": code.page, "markdown": render_code_page(code)},
        "defaultConfiguration": {"level": code.severity},
    }


def _result(found: Diagnostic, rule: int, names: FileNames, recipe: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": found.code,
        "ruleIndex": rule,
        "level": found.severity,
        "message": {"text": _result_message(found)},
        "locations": [{"physicalLocation": _physical_location(found.span, names, recipe)}],
    }
    if found.profiles:
        result["properties"] = {"profiles": list(found.profiles)}
    if found.labels:
        related = enumerate(found.labels, 1)
        result["relatedLocations"] = [_related_location(id, label, names, recipe) for id, label in related]
    if found.edit is not None and not _is_option(found.edit.span):
        result["fixes"] = [_fix(found.edit, found.help, names)]
    return result


def _result_message(found: Diagnostic) -> str:
    where = f" (at {found.span.file})" if _is_option(found.span) else ""
    profiles = f"\n{profiles_note(found)}" if found.profiles else ""
    return f"{found.message}{where}{profiles}" + (f"\n{found.help}" if found.help else "")


def _is_option(span: Span) -> bool:
    return span.file.startswith("--")


def _related_location(id: int, label: Label, names: FileNames, recipe: str) -> dict[str, Any]:
    where = f" ({label.span.file})" if _is_option(label.span) else ""
    place = _physical_location(label.span, names, recipe)
    return {"id": id, "message": {"text": f"{label.text}{where}"}, "physicalLocation": place}


def _fix(edit: Edit, help: str, names: FileNames) -> dict[str, Any]:
    change = {
        "artifactLocation": {"uri": _uri(names.get(edit.span.file, edit.span.file))},
        "replacements": [{"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.text}}],
    }
    return {"description": {"text": help or f"write `{edit.text}`"}, "artifactChanges": [change]}


def _physical_location(span: Span, names: FileNames, recipe: str) -> dict[str, Any]:
    if _is_option(span):
        return {"artifactLocation": {"uri": _uri(recipe)}, "region": {"startLine": 1}}
    file = names.get(span.file, span.file)
    return {"artifactLocation": {"uri": _uri(file)}, "region": _region(span)}


def _region(span: Span) -> dict[str, int]:
    """SARIF regions and spans agree: they count from 1, and the end column is exclusive."""
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }


def _uri(path: str) -> str:
    """A path as a relative URI."""
    encoded = (c if c in _UNRESERVED else "".join(f"%{b:02X}" for b in c.encode()) for c in path)
    return ("file://" if path.startswith("/") else "") + "".join(encoded)
