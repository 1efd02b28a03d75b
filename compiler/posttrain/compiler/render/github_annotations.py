"""Renders diagnostics as GitHub workflow commands, which become annotations."""

from collections.abc import Mapping, Sequence

from posttrain.spec.diagnostic import Code, Diagnostic, Span, profiles_note

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render_github(
    diagnostics: Sequence[Diagnostic], names: Mapping[str, str], codes: Mapping[str, Code], recipe: str
) -> str:
    """One line per diagnostic. Errors in command-line options appear at the recipe's first line."""
    return "".join(_command(found, names, codes, recipe) + "\n" for found in diagnostics)


def _command(found: Diagnostic, names: Mapping[str, str], codes: Mapping[str, Code], recipe: str) -> str:
    title = f"{found.code} {codes[found.code].title}" if found.code in codes else found.code
    properties = {**_annotation_location(found.span, names, recipe), "title": title}
    listed = ",".join(f"{key}={_escape_property(str(value))}" for key, value in properties.items())
    return f"::{_COMMANDS[found.severity]} {listed}::{_escape_data(_annotation_message(found, names))}"


def _annotation_location(span: Span, names: Mapping[str, str], recipe: str) -> dict[str, str | int]:
    if span.file.startswith("--"):
        return {"file": recipe, "line": 1}
    file: dict[str, str | int] = {"file": names.get(span.file, span.file), "line": span.line}
    last = span.end_line - (span.end_column == 1)  # an end in column 1 excludes that line
    if last > span.line:  # GitHub accepts columns only within one line
        return {**file, "endLine": last}
    end = span.end_column if span.end_line == span.line else span.column + 1
    return {**file, "col": span.column, "endLine": span.line, "endColumn": end}


def _annotation_message(found: Diagnostic, names: Mapping[str, str]) -> str:
    lines = [found.message]
    if found.span.file.startswith("--"):
        lines.append(f"at {found.span.file}")
    for label in found.labels:
        where = f"{names.get(label.span.file, label.span.file)}:{label.span.line}"
        lines.append(f"{label.span.file if label.span.file.startswith('--') else where}: {label.text}")
    lines += [profiles_note(found)] if found.profiles else []
    return "\n".join([*lines, *([f"help: {found.help}"] if found.help else [])])


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
