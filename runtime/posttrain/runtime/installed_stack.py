"""Reads the versions of the distributions that affect results: the environment part of every key."""

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache

from posttrain.spec.pinned_versions import PINNED_VERSIONS

_METADATA_SUFFIXES = (".dist-info", ".egg-info")


@cache
def installed_stack() -> Mapping[str, str]:
    """The installed versions, or the pinned version of this release for a missing distribution.

    A plan made on a laptop without torch thus has the same keys as on a machine with the pinned stack.
    """
    found = dict(PINNED_VERSIONS)
    seen: set[str] = set()
    for name, version in _installed_versions():
        if name in found and name not in seen:  # Python imports the first one on the path
            seen.add(name)
            found[name] = version
    return found


def installed_distributions() -> frozenset[str]:
    """The names of the installed distributions."""
    return frozenset(name for name, _ in _installed_versions())


def stack_mismatches(planned: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Name, planned version and installed version of each distribution that differs from the plan."""
    found: dict[str, str] = {}
    for name, version in _installed_versions():
        found.setdefault(name, version)
    return [
        (name, version, found.get(name, "missing"))
        for name, version in sorted(planned.items())
        if found.get(name) != version
    ]


def _installed_versions() -> Iterator[tuple[str, str]]:
    """Names and versions from the names of the metadata folders. importlib.metadata would read and parse
    a file for each distribution, which takes longer than checking a recipe."""
    for folder in sys.path:
        try:
            entries = [entry.name for entry in os.scandir(folder or ".")]
        except OSError:
            continue
        for entry in entries:
            if entry.endswith(_METADATA_SUFFIXES):
                name, _, version = entry[: -len(_METADATA_SUFFIXES[0])].partition("-")
                yield name.lower().replace("_", "-"), version
