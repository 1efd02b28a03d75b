"""A finding of the preflight: what a step needs and does not get, with its place in the recipe."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.spec.plan import SourceLocation, Step

Check = Literal[
    "disk", "endpoint", "function", "hub", "image", "library", "machine", "place", "schedule", "secret"
]
Severity = Literal["error", "warning"]


@record(kw_only=True)
class Finding:
    """One problem. An error stops the run before its first step; a warning does not."""

    check: Check
    severity: Severity
    # The steps that need it, in the order of the plan.
    steps: tuple[str, ...]
    # The declaration that names it.
    place: "SourceLocation"
    cause: str
    advice: str


def error(check: Check, step: "Step", cause: str, advice: str, *, declaration: str = "") -> Finding:
    """An error of one step. `declaration` is a key of the step's `places`."""
    return _finding(check, "error", step, cause, advice, declaration)


def warning(check: Check, step: "Step", cause: str, advice: str, *, declaration: str = "") -> Finding:
    return _finding(check, "warning", step, cause, advice, declaration)


def _finding(
    check: Check, severity: Severity, step: "Step", cause: str, advice: str, declaration: str
) -> Finding:
    place = step.places.get(declaration, step.place)
    return Finding(check=check, severity=severity, steps=(step.id,), place=place, cause=cause, advice=advice)


def location_text(place: "SourceLocation") -> str:
    return f"{place.file}:{place.line}:{place.column}"


def merge_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings in the order of the recipe. Findings that differ only in their steps become one."""
    merged: dict[tuple[object, ...], Finding] = {}
    for one in findings:
        place = one.place
        at = (place.file, place.line, place.column)
        # The legs of a matrix have one place, and often the same problem.
        identity = (*at, one.check, one.severity, one.cause, one.advice)
        steps = merged[identity].steps if identity in merged else ()
        merged[identity] = Finding(
            check=one.check,
            severity=one.severity,
            steps=tuple(dict.fromkeys((*steps, *one.steps))),
            place=place,
            cause=one.cause,
            advice=one.advice,
        )
    return tuple(merged[identity] for identity in sorted(merged, key=lambda each: each[:4]))


def has_errors(findings: Iterable[Finding]) -> bool:
    return any(one.severity == "error" for one in findings)
