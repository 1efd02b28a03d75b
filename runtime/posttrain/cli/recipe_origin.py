"""Where a recipe comes from: from the user, or from somebody else."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.runtime.registry.oci_reference import Reference


@record(kw_only=True)
class Origin:
    """Where a recipe of someone else comes from."""

    text: str
    # The artifacts, with their digests, whose signatures cover the recipe; empty if there is none.
    artifacts: "tuple[Reference, ...]" = ()
    # The folder that `recipe pull` has written: it must still have the files of the artifact.
    pulled: Path | None = None


def find_origin(file: Path, artifacts: Sequence[str], address: str = "") -> Origin | None:
    """The origin of a recipe that is in the cache, in a folder with its origin, or extends these artifacts.

    `address` is what the user has named it by. None for a recipe of the user.
    """
    if written := origin_files(file):
        return _pulled(written)
    if (digest := _cached_digest(file)) is not None:
        return _fetched(address, digest)
    if not artifacts:
        return None
    from posttrain.runtime.registry.oci_reference import parse_reference

    return Origin(text=", ".join(artifacts), artifacts=tuple(map(parse_reference, dict.fromkeys(artifacts))))


def origin_files(file: Path) -> list[Path]:
    """The origin that `recipe pull` has written for a file: next to it, or in a folder above it, because an
    artifact can have recipes in subfolders."""
    from posttrain.runtime.artifacts.artifact_paths import ORIGIN_FILE

    folders = dict.fromkeys((*file.absolute().parents, *file.resolve().parents))
    return [path for folder in folders if (path := folder / ORIGIN_FILE).exists()]


def _pulled(written: list[Path]) -> Origin:
    from posttrain.runtime.atomic_io import read_json
    from posttrain.runtime.registry.oci_reference import InvalidReference, parse_reference

    found = read_json(written[0])
    if not isinstance(found, dict):
        return Origin(text=f"a registry, says {written[0]}")
    text = str(found.get("origin"))
    try:
        reference = parse_reference(text)
    except InvalidReference:  # of the Hub, or damaged
        return Origin(text=text)
    if len(written) > 1 or reference.digest is None:
        return Origin(text=text)
    return Origin(text=text, artifacts=(reference,), pulled=written[0].parent)


def _fetched(address: str, digest: str) -> Origin:
    from posttrain.runtime.registry.oci_reference import is_reference, parse_reference

    if not is_reference(address):
        return Origin(text=address if "://" in address else "a registry")
    reference = parse_reference(address).pinned(digest)
    return Origin(text=str(reference), artifacts=(reference,))


def _cached_digest(file: Path) -> str | None:
    """The digest of the artifact to which a file in the cache belongs; empty for other files there."""
    from posttrain.runtime.user_cache import cache_folder

    with suppress(OSError):  # a user without a home directory has no cache
        path, cache = file.resolve(), cache_folder().resolve()
        if path.is_relative_to(cache / "recipes"):
            return path.relative_to(cache / "recipes").parts[0].replace("-", ":", 1)
        return "" if path.is_relative_to(cache) else None
    return None
