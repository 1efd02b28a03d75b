"""Finds the values of a lock that only the world outside can tell."""

from collections.abc import Callable, Mapping

from posttrain.compiler.lockfile.pins import strip_image_tag
from posttrain.runtime.lockfile.hub_revisions import resolve_commit
from posttrain.runtime.lockfile.image_digests import platform_digests, resolve_tag
from posttrain.spec.lockfile import EntryId

# Told before each question.
QueryListener = Callable[[str], None]


def resolve_entries(
    needed: Mapping[EntryId, str | None], known: Mapping[EntryId, str], told: QueryListener
) -> dict[EntryId, str]:
    """A value for each entry: the one that is needed, else the one that is known, else what is asked for.

    Raises StepFault for what cannot be found out.
    """
    return {id: value or known.get(id) or _query(id, told) for id, value in sorted(needed.items())}


def _query(id: EntryId, told: QueryListener) -> str:
    kind, name = id
    told(f"{kind} {name}")
    if kind == "image":
        return _resolve_image(name)
    return resolve_commit(kind, name)


def _resolve_image(name: str) -> str:
    """What an image is: its digest, if it was named by a tag, and that of each platform in it."""
    by_tag = "@" not in name
    digest = resolve_tag(name) if by_tag else name.partition("@")[2]
    platforms = platform_digests(f"{strip_image_tag(name)}@{digest}" if by_tag else name)
    found = [f"{platform}={one}" for platform, one in sorted(platforms.items())]
    return " ".join([digest, *found] if by_tag else found)
