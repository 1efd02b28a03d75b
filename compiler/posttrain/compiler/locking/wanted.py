"""What a plan needs to be locked, and in what a lock is not up to date with it."""

from collections.abc import Iterable, Mapping
from typing import Literal

from posttrain.compiler.locking.pins import commit_in
from posttrain.spec.lockfile import Id, Lock
from posttrain.spec.plan import Plan, Step
from posttrain.spec.record import record

# The value of each entry that must stand in the lock; None where only the world outside can tell it.
Wanted = Mapping[Id, str | None]


@record(kw_only=True)
class Reason:
    """One way in which a lock is not up to date."""

    reason: Literal["missing", "changed", "extra"]
    kind: str
    name: str
    old: str | None = None
    new: str | None = None


def wanted(plan: Plan, asked: Iterable[Id]) -> dict[Id, str | None]:
    """The entries of a plan, and of what its recipe names on the hub."""
    found: dict[Id, str | None] = {(kind, name): commit_in(name) for kind, name in asked}
    for step in plan.steps:
        found |= of_step(step)
    return found


def of_step(step: Step) -> dict[Id, str | None]:
    """What one step reads beside the recipe, and what does its work."""
    found: dict[Id, str | None] = {("file", file.path): file.sha256 for file in step.files.values()}
    if step.image is not None:
        found["image", step.image] = None
        return found
    versions: Mapping[str, str | None] = step.key_values["environment"]
    return found | {("stack", name): version for name, version in versions.items() if version is not None}


def stale(needed: Wanted, lock: Lock) -> list[Reason]:
    """Every way in which a lock is not what it must be; empty when it is up to date."""
    found = [reason for id, value in sorted(needed.items()) if (reason := one(id, value, lock))]
    extra = [
        Reason(reason="extra", kind=kind, name=name, old=lock.values[kind, name])
        for kind, name in sorted(lock.values)
        if (kind, name) not in needed
    ]
    return found + extra


def one(id: Id, value: str | None, lock: Lock) -> Reason | None:
    """What is wrong with one entry."""
    kind, name = id
    held = lock.values.get(id)
    if held is None:
        return Reason(reason="missing", kind=kind, name=name, new=value)
    if value is not None and held != value:
        return Reason(reason="changed", kind=kind, name=name, old=held, new=value)
    return None


def in_words(found: Reason) -> str:
    """A reason as a sentence."""
    thing = f"the {found.kind} `{found.name}`" if found.kind != "stack" else f"`{found.name}`"
    match found.reason:
        case "missing":
            return f"{thing} is not locked"
        case "extra":
            return f"{thing} is locked, and nothing needs it"
        case "changed":
            return f"{thing} is locked at {_short(found.old)}, and is {_short(found.new)} now"


def _short(value: str | None) -> str:
    text = value or "nothing"
    return text if len(text) <= 24 else text[:12]
