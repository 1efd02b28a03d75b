"""Resolves the entries of a lock with queries to the Hub and to registries."""

from collections.abc import Callable, Mapping

from posttrain.runtime.lockfile.hub_revisions import resolve_commit
from posttrain.runtime.lockfile.image_digests import platform_digests, resolve_tag
from posttrain.spec.image_names import strip_image_tag
from posttrain.spec.lockfile import EntryId

# Called before each query.
QueryListener = Callable[[str], None]


def resolve_entries(
    required: Mapping[EntryId, str | None], known: Mapping[EntryId, str], on_query: QueryListener
) -> dict[EntryId, str]:
    """A value for each entry: the required one, else the known one, else the result of a query.

    Raises StepError when a query fails.
    """
    return {id: value or known.get(id) or _query(id, on_query) for id, value in sorted(required.items())}


def _query(id: EntryId, on_query: QueryListener) -> str:
    kind, name = id
    on_query(f"{kind} {name}")
    if kind == "image":
        return _resolve_image(name)
    return resolve_commit(kind, name)


def _resolve_image(name: str) -> str:
    """The digest of an image named by a tag, and the digest of each platform."""
    by_tag = "@" not in name
    digest = resolve_tag(name) if by_tag else name.partition("@")[2]
    platforms = platform_digests(f"{strip_image_tag(name)}@{digest}" if by_tag else name)
    found = [f"{platform}={one}" for platform, one in sorted(platforms.items())]
    return " ".join([digest, *found] if by_tag else found)
