"""Diagnostics as text: the message, the source line with the span underlined, labels, and help."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posttrain.spec.diagnostic import Diagnostic, Label, Span

_WIDTH = 120
_COLOURS = {"error": "31", "warning": "33", "note": "36", "help": "32", "dim": "34", "bold": ""}


@dataclass(frozen=True)
class Styler:
    """Puts colour around text, or does not."""

    colour: bool = False

    def paint(self, text: str, kind: str) -> str:
        if not self.colour:
            return text
        code = _COLOURS[kind]
        return f"\x1b[1{';' + code if code else ''}m{text}\x1b[0m"


def render(
    diagnostics: Sequence[Diagnostic],
    texts: Mapping[str, Sequence[str]],
    names: Mapping[str, str],
    styler: Styler,
) -> str:
    """All diagnostics, and a line that counts them."""
    blocks = [_block(diagnostic, texts, names, styler) for diagnostic in diagnostics]
    return "\n".join([*blocks, _count(diagnostics, styler)]) if blocks else ""


def _count(diagnostics: Sequence[Diagnostic], styler: Styler) -> str:
    parts: list[str] = []
    for severity in ("error", "warning", "note"):
        count = sum(d.severity == severity for d in diagnostics)
        if count:
            parts.append(styler.paint(f"{count} {severity}{'s' if count > 1 else ''}", severity))
    return ", ".join(parts) + "\n"


def _block(
    diagnostic: Diagnostic, texts: Mapping[str, Sequence[str]], names: Mapping[str, str], styler: Styler
) -> str:
    head = styler.paint(f"{diagnostic.severity}[{diagnostic.code}]", diagnostic.severity)
    lines = [f"{head}: {styler.paint(diagnostic.message, 'bold')}"]
    labels = [label for label in diagnostic.labels if label.span != diagnostic.span]
    margin = max(len(str(span.line)) for span in (diagnostic.span, *(label.span for label in labels)))
    lines += _place(diagnostic.span, "", diagnostic.severity, margin, texts, names, styler)
    for label in labels:
        lines += _labelled(label, margin, texts, names, styler)
    if diagnostic.help:
        lines.append(f"{' ' * margin} {styler.paint('= help:', 'help')} {diagnostic.help}")
    lines.append(f"{' ' * margin} {styler.paint('= see:', 'dim')} recipe explain {diagnostic.code}")
    return "\n".join(lines) + "\n"


def _labelled(
    label: Label,
    margin: int,
    texts: Mapping[str, Sequence[str]],
    names: Mapping[str, str],
    styler: Styler,
) -> list[str]:
    return _place(label.span, label.text, "note", margin, texts, names, styler)


def _place(
    span: Span,
    text: str,
    kind: str,
    margin: int,
    texts: Mapping[str, Sequence[str]],
    names: Mapping[str, str],
    styler: Styler,
) -> list[str]:
    """The place, its line, and carets under the span."""
    pad, bar = " " * margin, styler.paint("|", "dim")
    arrow = styler.paint("-->" if kind != "note" else ":::", "dim")
    where = f"{names.get(span.file, span.file)}:{span.line}:{span.column}"
    if span.file.startswith("--"):
        where = span.file  # a command-line option has no lines
    lines = [f"{pad}{arrow} {where}"]
    source = texts.get(span.file, ())
    if span.line > len(source):
        return [*lines, f"{pad} {bar} {text}"] if text else lines
    line, start, length = _window(source[span.line - 1], span)
    marks = styler.paint(("^" if kind != "note" else "-") * length + (f" {text}" if text else ""), kind)
    number = styler.paint(f"{span.line:>{margin}}", "dim")
    return [*lines, f"{pad} {bar}", f"{number} {bar} {line}", f"{pad} {bar} {' ' * start}{marks}"]


def _window(line: str, span: Span) -> tuple[str, int, int]:
    """The line, shortened around the span if it is long, with the span's place in it."""
    line = line.replace("\t", " ")
    start = span.column - 1
    end = span.end_column - 1 if span.end_line == span.line else len(line.rstrip())
    length = max(1, min(end, max(len(line), start + 1)) - start)
    if len(line) <= _WIDTH:
        return line, start, length
    left = max(0, start - _WIDTH // 3)
    shown = line[left : left + _WIDTH]
    prefix = "..." if left else ""
    suffix = "..." if left + _WIDTH < len(line) else ""
    return prefix + shown + suffix, start - left + len(prefix), min(length, max(1, _WIDTH - (start - left)))
