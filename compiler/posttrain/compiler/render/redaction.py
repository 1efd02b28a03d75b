"""Redacts source lines that contain a secret.

All diagnostics use the redacted lines, because another diagnostic can be on the same line.
"""

from collections.abc import Mapping, Sequence

from posttrain.spec.diagnostic import Diagnostic, Span
from posttrain.spec.url_passwords import mask_url_passwords


def redact_secrets(
    texts: Mapping[str, Sequence[str]], diagnostics: Sequence[Diagnostic]
) -> Mapping[str, Sequence[str]]:
    """The lines of files, with stars in place of redacted spans and of passwords in URLs."""
    hidden = {
        name: [mask_url_passwords(line, same_length=True) for line in lines] for name, lines in texts.items()
    }
    for span in (diagnostic.redacted_span for diagnostic in diagnostics):
        if span is not None and span.file in hidden:
            _mask_span(hidden[span.file], span)
    return hidden


def _mask_span(lines: list[str], span: Span) -> None:
    for number in range(span.line, min(span.end_line, len(lines)) + 1):
        line = lines[number - 1]
        start = span.column - 1 if number == span.line else 0
        end = span.end_column - 1 if number == span.end_line else len(line)
        lines[number - 1] = line[:start] + "*" * len(line[start:end]) + line[end:]
