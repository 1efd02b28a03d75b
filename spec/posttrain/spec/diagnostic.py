"""Diagnostics as data: code, place, message and help. `compiler/render` renders them."""

from dataclasses import dataclass
from typing import Literal

from posttrain.spec.record import record

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a source file. Lines and columns count from 1; the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@record
class Label:
    """A related place, with a note about its relation to the diagnostic."""

    span: Span
    text: str


@record
class Edit:
    """A replacement of the text at `span` that fixes the error."""

    span: Span
    text: str


@record
class Code:
    """A kind of diagnostic, with the page that `recipe explain` prints for it.

    `wrong` raises exactly this code and `right` raises nothing; a test checks this for every code.
    `files` are the files that the examples refer to, as path and text.
    """

    id: str
    title: str
    severity: Severity
    page: str
    wrong: str
    right: str
    files: tuple[tuple[str, str], ...] = ()


@record
class Diagnostic:
    code: str
    severity: Severity
    message: str
    span: Span
    labels: tuple[Label, ...] = ()
    help: str = ""
    edit: Edit | None = None
    # The part of the source that must not be shown, such as a secret.
    redacted_span: Span | None = None
    # The profiles that the diagnostic needs to appear. Empty if the recipe has it without a profile.
    profiles: tuple[str, ...] = ()


def profiles_note(diagnostic: Diagnostic) -> str:
    """The profiles of a diagnostic in words."""
    listed = ", ".join(f"`{name}`" for name in diagnostic.profiles)
    return f"in the profile{'s' if len(diagnostic.profiles) > 1 else ''} {listed}"


def sort_by_location(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """The diagnostics without duplicates, sorted by place."""
    unique = {(d.code, d.span, d.message): d for d in diagnostics}
    return sorted(unique.values(), key=lambda d: (d.span.file, d.span.line, d.span.column, d.code))


def has_errors(diagnostics: list[Diagnostic] | tuple[Diagnostic, ...]) -> bool:
    return any(d.severity == "error" for d in diagnostics)
