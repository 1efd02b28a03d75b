"""A diagnostic is data: what is wrong, where, why, and what to do. Rendering is elsewhere."""

from dataclasses import dataclass
from typing import Literal

from posttrain.spec.record import record

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a source file. Lines and columns count from 1; the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@record
class Label:
    """A secondary place, with what it has to do with the matter."""

    span: Span
    text: str


@record
class Edit:
    """A replacement of the text under `span` that would mend the matter."""

    span: Span
    text: str


@record
class Code:
    """A kind of diagnostic, with the page that `recipe explain` prints for it.

    `wrong` raises exactly this code and `right` raises nothing; a test holds every code to that.
    `files` are those that the examples refer to, as path and text.
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
    # What must not be shown with the source lines.
    redacted_span: Span | None = None


def sort_by_location(found: list[Diagnostic]) -> list[Diagnostic]:
    """Each diagnostic once, sorted by place."""
    unique = {(d.code, d.span, d.message): d for d in found}
    return sorted(unique.values(), key=lambda d: (d.span.file, d.span.line, d.span.column, d.code))


def has_errors(found: list[Diagnostic] | tuple[Diagnostic, ...]) -> bool:
    return any(d.severity == "error" for d in found)
