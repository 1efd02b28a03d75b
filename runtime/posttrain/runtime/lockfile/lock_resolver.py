"""Resolves the values of a lock that only the hub or a registry knows."""

from collections.abc import Callable, Mapping

from posttrain.compiler.lockfile.pins import strip_image_tag
from posttrain.runtime.lockfile.hub_revisions import resolve_commit
from posttrain.runtime.lockfile.image_digests import platform_digests, resolve_tag
from posttrain.spec.lockfile import EntryId

# Called before each query.
QueryListener = Callable[[str], None]


def resolve_entries(
    required: Mapping[EntryId, str | None], known: Mapping[EntryId, str], on_query: QueryListener
) -> dict[EntryId, str]:
    """A value for each entry: the required one, else the known one, else the one that a query returns.

    Raises StepError for what cannot be found out.
    """
    return {id: value or known.get(id) or _query(id, on_query) for id, value in sorted(required.items())}


def _query(id: EntryId, on_query: QueryListener) -> str:
    kind, name = id
    on_query(f"{kind} {name}")
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
