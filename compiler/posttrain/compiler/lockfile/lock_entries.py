"""What a plan needs to be locked, and in what a lock is not up to date with it."""

from collections.abc import Iterable, Mapping
from typing import Literal

from posttrain.compiler.lockfile.pins import commit_of
from posttrain.spec.lockfile import EntryId, Lockfile
from posttrain.spec.plan import Plan, Step
from posttrain.spec.record import record

# The value of each entry that must stand in the lock; None where only the world outside can tell it.
RequiredEntries = Mapping[EntryId, str | None]


@record(kw_only=True)
class LockDifference:
    """One way in which a lock is not up to date."""

    reason: Literal["missing", "changed", "extra"]
    kind: str
    name: str
    old: str | None = None
    new: str | None = None


def required_entries(plan: Plan, asked: Iterable[EntryId]) -> dict[EntryId, str | None]:
    """The entries of a plan, and of what its recipe names on the hub."""
    found: dict[EntryId, str | None] = {(kind, name): commit_of(name) for kind, name in asked}
    for step in plan.steps:
        found |= step_entries(step)
    return found


def step_entries(step: Step) -> dict[EntryId, str | None]:
    """What one step reads beside the recipe, and what does its work."""
    found: dict[EntryId, str | None] = {("file", file.path): file.sha256 for file in step.files.values()}
    if step.image is not None:
        found["image", step.image] = None
        return found
    versions: Mapping[str, str | None] = step.key_values["environment"]
    return found | {("stack", name): version for name, version in versions.items() if version is not None}


def lock_differences(needed: RequiredEntries, lock: Lockfile) -> list[LockDifference]:
    """Every way in which a lock is not what it must be; empty when it is up to date."""
    found = [reason for id, value in sorted(needed.items()) if (reason := entry_difference(id, value, lock))]
    extra = [
        LockDifference(reason="extra", kind=kind, name=name, old=lock.values[kind, name])
        for kind, name in sorted(lock.values)
        if (kind, name) not in needed
    ]
    return found + extra


def entry_difference(id: EntryId, value: str | None, lock: Lockfile) -> LockDifference | None:
    """What is wrong with one entry."""
    kind, name = id
    locked = lock.values.get(id)
    if locked is None:
        return LockDifference(reason="missing", kind=kind, name=name, new=value)
    if value is not None and locked != value:
        return LockDifference(reason="changed", kind=kind, name=name, old=locked, new=value)
    return None


def describe_difference(found: LockDifference) -> str:
    """A reason as a sentence."""
    thing = f"the {found.kind} `{found.name}`" if found.kind != "stack" else f"`{found.name}`"
    match found.reason:
        case "missing":
            return f"{thing} is not locked"
        case "extra":
            return f"{thing} is locked, and nothing needs it"
        case "changed":
            return f"{thing} is locked at {_shorten(found.old)}, and is {_shorten(found.new)} now"


def _shorten(value: str | None) -> str:
    text = value or "nothing"
    return text if len(text) <= 24 else text[:12]
