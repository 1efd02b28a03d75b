"""The cache of the user: what commands fetch from registries, and their interrupted uploads."""

import errno
import os
from pathlib import Path


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/posttrain, by default ~/.cache/posttrain. Raises OSError for a user without a home."""
    root = expand_home(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    if root is None:
        raise OSError(errno.ENOENT, "the user has no home directory: set XDG_CACHE_HOME", "~/.cache")
    return root / "posttrain"


def expand_home(path: str) -> Path | None:
    """A path that can start with `~`; None if the user has no home directory, as in some containers."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return None


def cached_blob(sha256: str) -> Path:
    """Where the content with a digest is kept, if it was fetched from a registry."""
    return cache_folder() / "blobs" / "sha256" / sha256
