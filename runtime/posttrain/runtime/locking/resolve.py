"""Finds the values of a lock that only the world outside can tell."""

from collections.abc import Callable, Mapping

from posttrain.runtime.locking.hub import commit_of
from posttrain.runtime.locking.images import platforms_of
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
        return " ".join(f"{platform}={digest}" for platform, digest in sorted(platforms_of(name).items()))
    return commit_of(kind, name)
