"""Finds the files of the user that a plan names."""

from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.runtime.user_cache import cached_blob

if TYPE_CHECKING:
    from posttrain.spec.plan import UserFile


def find_user_file(folder: Path, file: "UserFile") -> Path:
    """A file in the recipe's folder, or that of an artifact that the recipe extends, from the cache."""
    own = folder / file.path
    cached = cached_blob(file.sha256)
    return cached if not own.exists() and cached.is_file() else own
