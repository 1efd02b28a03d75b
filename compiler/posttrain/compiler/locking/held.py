"""Holds a compilation to its lock: with --locked, nothing is planned that the lock does not speak of."""

from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.locking.codes import STALE
from posttrain.compiler.locking.pins import Pins
from posttrain.compiler.locking.wanted import Reason, in_words, of_step, one
from posttrain.compiler.text.source import Source
from posttrain.spec.diagnostic import Label, Span
from posttrain.spec.lockfile import BadLock, Id, parse_lock
from posttrain.spec.plan import Plan, Step


def pins_of(source: Source, findings: Findings) -> Pins:
    """The pins of a lock; none when it cannot be read, which is reported."""
    try:
        return Pins(lock=parse_lock(source.data.decode("utf-8")), file=source.name)
    except UnicodeDecodeError:
        fault = BadLock(1, "this is no text in UTF-8")
    except BadLock as error:
        fault = error
    span = Span(source.name, fault.line, 1, fault.line, 2)
    findings.at_span(STALE, span, f"the lock cannot be read: {fault}", help="`recipe lock` writes it anew")
    return Pins(file=source.name)


def check_held(plan: Plan | None, pins: Pins, findings: Findings) -> None:
    """Report what the recipe needs and the lock does not hold, or holds otherwise: each thing once."""
    for (kind, name), span in pins.lacking.items():
        what = "digest" if kind == "image" else "revision"
        message = f"{pins.file} holds no {what} of the {kind} `{name}`"
        findings.at_span(STALE, span, message, help="`recipe lock` adds it")
    if pins.lock is None or plan is None:
        return
    told: set[Id] = set(pins.lacking)
    for step in plan.steps:
        for needed, value in of_step(step).items():
            id = pins.images.get(needed[1], needed) if needed[0] == "image" else needed
            reason = one(id, value, pins.lock) if id not in told else None
            told.add(id)
            if reason is not None:
                _report(reason, step, pins, findings)


def _report(reason: Reason, step: Step, pins: Pins, findings: Findings) -> None:
    assert pins.lock is not None, "only a lock is stale"
    line = pins.lock.lines.get((reason.kind, reason.name))
    name = step.id.partition("@")[0].rpartition(".")[2]
    place = Span(
        step.place.file, step.place.line, step.place.column, step.place.line, step.place.column + len(name)
    )
    labels = (Label(Span(pins.file, line, 1, line, 2), "locked here"),) if line else ()
    findings.at_span(STALE, place, in_words(reason), help="`recipe lock` brings it up to date", labels=labels)
