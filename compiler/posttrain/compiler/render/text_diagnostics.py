"""Renders diagnostics as text: the message, underlined source lines, and the help."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posttrain.compiler.render.display_width import display_line
from posttrain.compiler.render.redaction import redact_secrets
from posttrain.compiler.render.snippet import Mark, SnippetLine, render_snippet
from posttrain.spec.diagnostic import Diagnostic, profiles_note

_COLOURS = {"error": "31", "warning": "33", "note": "36", "help": "32", "dim": "34", "bold": ""}
SourceLines = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Styler:
    """Applies colors to text if enabled, and limits the width of source lines."""

    colour: bool = False
    width: int = 120

    def paint(self, text: str, kind: str) -> str:
        if not self.colour or not kind or not text.strip():
            return text
        code = _COLOURS[kind]
        return f"\x1b[1{';' + code if code else ''}m{text}\x1b[0m"


def render_text(
    diagnostics: Sequence[Diagnostic],
    texts: SourceLines,
    names: Mapping[str, str],
    styler: Styler,
    limit: int = 0,
) -> str:
    """The diagnostics, at most `limit` unless it is 0, and a summary line.

    `texts` has the lines of files, `names` their paths."""
    texts = redact_secrets(texts, diagnostics)
    shown = _most_severe(diagnostics, limit) if 0 < limit < len(diagnostics) else diagnostics
    blocks = [_format_diagnostic(diagnostic, texts, names, styler) for diagnostic in shown]
    if len(shown) < len(diagnostics):
        omitted = len(diagnostics) - len(shown)
        blocks.append(f"{omitted} more are not shown; `recipe validate --max-diagnostics 0` shows all\n")
    return "\n".join([*blocks, _count_line(diagnostics, styler)]) if blocks else ""


def _most_severe(diagnostics: Sequence[Diagnostic], limit: int) -> list[Diagnostic]:
    """The first diagnostics of the highest severity, in their order."""
    ranks = {"error": 0, "warning": 1, "note": 2}
    ranked = sorted(range(len(diagnostics)), key=lambda at: ranks[diagnostics[at].severity])
    return [diagnostics[at] for at in sorted(ranked[:limit])]


def _count_line(diagnostics: Sequence[Diagnostic], styler: Styler) -> str:
    parts: list[str] = []
    for severity in ("error", "warning", "note"):
        count = sum(d.severity == severity for d in diagnostics)
        if count:
            parts.append(styler.paint(f"{count} {severity}{'s' if count > 1 else ''}", severity))
    return ", ".join(parts) + "\n"


def _format_diagnostic(
    diagnostic: Diagnostic, texts: SourceLines, names: Mapping[str, str], styler: Styler
) -> str:
    head = styler.paint(f"{diagnostic.severity}[{diagnostic.code}]", diagnostic.severity)
    message = "\n".join(display_line(line).text for line in diagnostic.message.split("\n"))
    lines = [f"{head}: {styler.paint(message, 'bold')}"]
    by_file = _marks_by_file(diagnostic)
    margin = max(len(str(mark.span.end_line)) for marks in by_file.values() for mark in marks)
    for file, marks in by_file.items():
        arrow = "-->" if file == diagnostic.span.file else ":::"
        lines += _format_location(arrow, file, marks, margin, texts.get(file, ()), names, styler)
    if diagnostic.profiles:
        lines += _format_note("note", profiles_note(diagnostic), margin, styler)
    if diagnostic.help:
        lines += _format_note("help", diagnostic.help, margin, styler)
    lines.append(f"{' ' * margin} {styler.paint('= see:', 'dim')} recipe explain {diagnostic.code}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _marks_by_file(diagnostic: Diagnostic) -> dict[str, list[Mark]]:
    """The marks by file: the span of the diagnostic, then its labels."""
    same = [label.text for label in diagnostic.labels if label.span == diagnostic.span]
    found = {
        diagnostic.span.file: [Mark(diagnostic.span, "; ".join(same), diagnostic.severity, primary=True)]
    }
    for label in diagnostic.labels:
        if label.span != diagnostic.span:
            found.setdefault(label.span.file, []).append(Mark(label.span, label.text, "note"))
    return found


def _format_location(
    arrow: str,
    file: str,
    marks: Sequence[Mark],
    margin: int,
    source: Sequence[str],
    names: Mapping[str, str],
    styler: Styler,
) -> list[str]:
    """The location of a diagnostic in one file, and the source lines."""
    pad, bar = " " * margin, styler.paint("|", "dim")
    head = f"{pad}{styler.paint(arrow, 'dim')} "
    if file.startswith("--"):  # a command-line option has no source lines
        notes = [
            line for mark in marks if mark.text for line in _format_note("note", mark.text, margin, styler)
        ]
        return [head + file, *notes]
    first = marks[0].span
    lines = [f"{head}{names.get(file, file)}:{first.line}:{first.column}", f"{pad} {bar}"]
    if not source:
        notes = [
            line for mark in marks if mark.text for line in _format_note("note", mark.text, margin, styler)
        ]
        return [*lines[:1], *notes]
    shown = render_snippet(marks, source, styler.width)
    return [*lines, *(_format_line(line, margin, bar, styler) for line in shown)]


def _format_line(line: SnippetLine, margin: int, bar: str, styler: Styler) -> str:
    text = "".join(styler.paint(piece, kind) for piece, kind in line.segments)
    if line.gap:
        return f"{'...':<{margin + 3}}{text}"
    number = "" if line.number is None else str(line.number)
    return f"{styler.paint(f'{number:>{margin}}', 'dim')} {bar} {text}"


def _format_note(kind: str, text: str, margin: int, styler: Styler) -> list[str]:
    """A note below the source lines. Its lines are aligned."""
    head = f"= {kind}: "
    first, *rest = [display_line(line).text for line in text.splitlines()] or [""]
    indent = " " * (margin + 1 + len(head))
    return [f"{' ' * margin} {styler.paint(head.rstrip(), kind)} {first}", *(indent + line for line in rest)]
