"""The lockfile entries that a plan requires, and their differences from a lockfile."""

from collections.abc import Iterable, Mapping
from typing import Literal

from posttrain.compiler.lockfile.pins import commit_of
from posttrain.spec.lockfile import EntryId, Lockfile
from posttrain.spec.plan import Plan, Step
from posttrain.spec.record import record

# The required entries with their values; None if only an external service knows the value.
RequiredEntries = Mapping[EntryId, str | None]


@record(kw_only=True)
class LockDifference:
    """One difference between a lockfile and the required entries."""

    reason: Literal["missing", "changed", "extra"]
    kind: str
    name: str
    old: str | None = None
    new: str | None = None


def required_entries(plan: Plan, hub_references: Iterable[EntryId]) -> dict[EntryId, str | None]:
    """The entries of a plan, and of the hub references of its recipe."""
    found: dict[EntryId, str | None] = {(kind, name): commit_of(name) for kind, name in hub_references}
    for step in plan.steps:
        found |= step_entries(step)
    return found


def step_entries(step: Step) -> dict[EntryId, str | None]:
    """The entries of one step: its user files, and its image or the versions of its libraries."""
    found: dict[EntryId, str | None] = {("file", file.path): file.sha256 for file in step.files.values()}
    if step.image is not None:
        found["image", step.image] = None
        return found
    versions: Mapping[str, str | None] = step.key_values["environment"]
    return found | {("stack", name): version for name, version in versions.items() if version is not None}


def lock_differences(needed: RequiredEntries, lock: Lockfile) -> list[LockDifference]:
    """The differences between a lockfile and the required entries; empty if it is up to date."""
    found = [reason for id, value in sorted(needed.items()) if (reason := entry_difference(id, value, lock))]
    extra = [
        LockDifference(reason="extra", kind=kind, name=name, old=lock.values[kind, name])
        for kind, name in sorted(lock.values)
        if (kind, name) not in needed
    ]
    return found + extra


def entry_difference(id: EntryId, value: str | None, lock: Lockfile) -> LockDifference | None:
    """The difference of one entry; None if it is up to date."""
    kind, name = id
    locked = lock.values.get(id)
    if locked is None:
        return LockDifference(reason="missing", kind=kind, name=name, new=value)
    if value is not None and locked != value:
        return LockDifference(reason="changed", kind=kind, name=name, old=locked, new=value)
    return None


def describe_difference(found: LockDifference) -> str:
    """A difference as a sentence."""
    thing = f"the {found.kind} `{found.name}`" if found.kind != "stack" else f"`{found.name}`"
    match found.reason:
        case "missing":
            return f"{thing} is not locked"
        case "extra":
            return f"{thing} is locked, but nothing uses it"
        case "changed":
            return f"{thing} is locked at {_shorten(found.old)}, but is now {_shorten(found.new)}"


def _shorten(value: str | None) -> str:
    text = value or "nothing"
    return text if len(text) <= 24 else text[:12]
