"""Finds the values of a lock that only the world outside can tell."""

from collections.abc import Callable, Mapping

from posttrain.compiler.locking.pins import untagged
from posttrain.runtime.locking.hub import commit_of
from posttrain.runtime.locking.images import digest_of, platforms_of
from posttrain.spec.lockfile import Id

# Told before each question.
Told = Callable[[str], None]


def resolved(needed: Mapping[Id, str | None], known: Mapping[Id, str], told: Told) -> dict[Id, str]:
    """A value for each entry: the one that is needed, else the one that is known, else what is asked for.

    Raises StepFault for what cannot be found out.
    """
    return {id: value or known.get(id) or _asked(id, told) for id, value in sorted(needed.items())}


def _asked(id: Id, told: Told) -> str:
    kind, name = id
    told(f"{kind} {name}")
    if kind == "image":
        return _image(name)
    return commit_of(kind, name)


def _image(name: str) -> str:
    """What an image is: its digest, if it was named by a tag, and that of each platform in it."""
    by_tag = "@" not in name
    digest = digest_of(name) if by_tag else name.partition("@")[2]
    platforms = platforms_of(f"{untagged(name)}@{digest}" if by_tag else name)
    found = [f"{platform}={one}" for platform, one in sorted(platforms.items())]
    return " ".join([digest, *found] if by_tag else found)
