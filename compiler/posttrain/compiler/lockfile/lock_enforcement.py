"""Enforces the lockfile: with --locked, a plan may contain only what the lockfile has."""

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.lockfile.lock_entries import (
    LockDifference,
    describe_difference,
    entry_difference,
    step_entries,
)
from posttrain.compiler.lockfile.lockfile_codes import STALE_LOCK
from posttrain.compiler.lockfile.pins import Pins
from posttrain.compiler.text.compile_request import SourceFile
from posttrain.spec.diagnostic import Label, Span
from posttrain.spec.lockfile import EntryId, LockfileError, NewerLockfileError, parse_lock
from posttrain.spec.plan import Plan, Step


def load_pins(source: SourceFile, diagnostics: Diagnostics) -> Pins:
    """The pins of a lockfile; empty after a reported error."""
    try:
        return Pins(lock=parse_lock(source.data.decode("utf-8")), file=source.name)
    except UnicodeDecodeError:
        fault = LockfileError(1, "the file is not UTF-8 text")
    except LockfileError as error:
        fault = error
    span = Span(source.name, fault.line, 1, fault.line, 2)
    newer = isinstance(fault, NewerLockfileError)
    help = "upgrade posttrain" if newer else "run `recipe lock` to generate it again"
    diagnostics.add_at_span(STALE_LOCK, span, f"invalid lockfile: {fault}", help=help)
    return Pins(file=source.name)


def enforce_lock(plan: Plan | None, pins: Pins, diagnostics: Diagnostics) -> None:
    """Report entries that are missing from the lockfile or differ from it, each once."""
    for (kind, name), span in pins.missing.items():
        what = "digest" if kind == "image" else "revision"
        message = f"{pins.file} has no {what} for the {kind} `{name}`"
        diagnostics.add_at_span(STALE_LOCK, span, message, help="run `recipe lock` to add it")
    if pins.lock is None or plan is None:
        return
    reported: set[EntryId] = set(pins.missing)
    for step in plan.steps:
        for needed, value in step_entries(step).items():
            id = pins.images.get(needed[1], needed) if needed[0] == "image" else needed
            reason = entry_difference(id, value, pins.lock) if id not in reported else None
            reported.add(id)
            if reason is not None:
                _report(reason, step, pins, diagnostics)


def _report(reason: LockDifference, step: Step, pins: Pins, diagnostics: Diagnostics) -> None:
    assert pins.lock is not None, "there is a lockfile"
    line = pins.lock.lines.get((reason.kind, reason.name))
    name = step.id.partition("@")[0].rpartition(".")[2]
    place = Span(
        step.place.file, step.place.line, step.place.column, step.place.line, step.place.column + len(name)
    )
    labels = (Label(Span(pins.file, line, 1, line, 2), "locked here"),) if line else ()
    diagnostics.add_at_span(
        STALE_LOCK,
        place,
        describe_difference(reason),
        help="run `recipe lock` to update it",
        labels=labels,
    )
