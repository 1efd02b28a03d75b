"""The versions of the distributions that change results: the environment part of every key."""

from collections.abc import Mapping
from functools import cache

from posttrain.compiler.facts.stack import PINNED


@cache
def installed_stack() -> Mapping[str, str]:
    """What runs steps here; where a distribution is not installed, what this release is pinned to.

    So a plan made on a laptop without torch has the keys of a machine that holds the pinned stack.
    """
    from importlib.metadata import PackageNotFoundError, version

    found = dict(PINNED)
    for name in PINNED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
