"""The versions of the distributions that change results: the environment part of every key."""

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache

from posttrain.compiler.facts.pinned_versions import PINNED_VERSIONS

_METADATA_SUFFIXES = (".dist-info", ".egg-info")


@cache
def installed_stack() -> Mapping[str, str]:
    """What runs steps here; where a distribution is not installed, what this release is pinned to.

    So a plan made on a laptop without torch has the keys of a machine that holds the pinned stack.
    """
    found = dict(PINNED_VERSIONS)
    seen: set[str] = set()
    for name, version in _installed_versions():
        if name in found and name not in seen:  # the first on the path is the one that is imported
            seen.add(name)
            found[name] = version
    return found


def _installed_versions() -> Iterator[tuple[str, str]]:
    """Names and versions as the folders beside the packages have them. Asking importlib.metadata reads
    and parses a file for each, which takes longer than to check a recipe."""
    for folder in sys.path:
        try:
            entries = [entry.name for entry in os.scandir(folder or ".")]
        except OSError:
            continue
        for entry in entries:
            if entry.endswith(_METADATA_SUFFIXES):
                name, _, version = entry[: -len(_METADATA_SUFFIXES[0])].partition("-")
                yield name.lower().replace("_", "-"), version
