"""Fetches recipes from a registry into the cache of the user, and unpacks them."""

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.runtime import atomic_io
from posttrain.runtime.artifacts.artifact_cache import (
    blob_path,
    partial_file,
    read_cached,
    remove_leftovers,
    temporary_folder,
    write_cached,
)
from posttrain.runtime.artifacts.pulled_folder import pulled_folder
from posttrain.runtime.artifacts.recipe_artifact import (
    DEFAULT_MAX_MB,
    RecipeContents,
    parse_recipe_manifest,
    with_config,
)
from posttrain.runtime.registry.oci_manifest import Descriptor
from posttrain.runtime.registry.oci_reference import Reference
from posttrain.runtime.user_cache import cache_folder
from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.runtime.artifacts.hub_artifacts import HubReference


@record(kw_only=True)
class FetchedRecipe:
    """An unpacked recipe in the cache."""

    # With its digest, or its commit.
    reference: "Reference | HubReference"
    folder: Path
    recipe: Path


def fetch_recipe(reference: Reference, max_mb: int = DEFAULT_MAX_MB) -> FetchedRecipe:
    """The recipe of a reference, from the cache or from its registry.

    A reference with a digest that was fetched before needs no network. Raises RegistryError.
    """
    data = None if reference.digest is None else read_cached(reference.digest)
    digest = reference.digest
    if data is None or digest is None:
        from posttrain.runtime.registry.registry_client import RegistryClient

        with RegistryClient(reference) as client:
            found = client.get_manifest(reference.version)
        data, digest = found.data, found.digest
    contents = _fetch_contents(reference, data, max_mb << 20)
    if read_cached(digest) is None:
        write_cached(data)
    return _unpacked(reference.pinned(digest), contents, digest)


def fetch_hub_recipe(reference: "HubReference", max_mb: int = DEFAULT_MAX_MB) -> FetchedRecipe:
    """The recipe in a repository of the Hub, from the cache or from the Hub."""
    from posttrain.runtime.artifacts.hub_artifacts import fetch_from_hub

    pinned, digest = fetch_from_hub(reference, max_mb << 20)
    data = read_cached(digest)
    assert data is not None, "the manifest has been fetched"
    contents, manifest = parse_recipe_manifest(data, max_mb << 20)
    config = read_cached(manifest.config.digest)
    assert config is not None, "the configuration has been fetched"
    return _unpacked(pinned, with_config(contents, config), digest)


def _unpacked(reference: "Reference | HubReference", contents: RecipeContents, digest: str) -> FetchedRecipe:
    folder = cache_folder() / "recipes" / digest.replace(":", "-")
    _unpack(contents, folder)
    return FetchedRecipe(reference=reference, folder=folder, recipe=folder / contents.recipe)


def copy_recipe(fetched: FetchedRecipe, target: Path) -> None:
    """Copy an unpacked recipe to a folder, which must be empty or new."""
    with pulled_folder(target, fetched.folder.name, str(fetched.reference)) as folder:
        shutil.copytree(fetched.folder, folder, dirs_exist_ok=True)


def is_known(reference: Reference) -> bool:
    """Whether a reference names a recipe by a digest that was fetched before."""
    return reference.digest is not None and read_cached(reference.digest) is not None


def changed_file(folder: Path, origin: Reference, recipe: Path) -> str | None:
    """The first file of an artifact in the cache that its copy in a folder does not have as published; or the
    recipe that runs if it is not among them. None without one."""
    manifest = read_cached(origin.digest or "")
    assert manifest is not None, "the search for its signer has fetched it"
    contents, _ = parse_recipe_manifest(manifest, sys.maxsize)
    name = recipe.resolve().relative_to(folder.resolve()).as_posix()
    if name not in contents.files:
        return name
    for name, blob in contents.files.items():
        path = folder / name
        if not path.is_file() or f"sha256:{atomic_io.sha256_file(path)}" != blob.digest:
            return name
    return None


def _fetch_contents(reference: Reference, data: bytes, max_bytes: int) -> RecipeContents:
    """Put the blobs of a recipe into the cache, after the check of its manifest."""
    contents, manifest = parse_recipe_manifest(data, max_bytes)
    blobs = {blob.digest: blob for blob in (manifest.config, *contents.files.values())}
    missing = [blob for blob in blobs.values() if not _is_intact(blob)]
    if missing:
        _download(reference, missing)
    config = read_cached(manifest.config.digest)
    assert config is not None, "the configuration has been fetched"
    return with_config(contents, config)


def _is_intact(blob: Descriptor) -> bool:
    path = blob_path(blob.digest)
    return (
        path.is_file()
        and path.stat().st_size == blob.size
        and f"sha256:{atomic_io.sha256_file(path)}" == blob.digest
    )


def _download(reference: Reference, blobs: list[Descriptor]) -> None:
    from posttrain.runtime.registry.registry_client import RegistryClient

    remove_leftovers(time.time())
    with RegistryClient(reference) as client:
        for blob in blobs:
            path = blob_path(blob.digest)
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial_file(path) as partial:
                client.download_blob(blob, partial)


def _unpack(contents: RecipeContents, folder: Path) -> None:
    """Copy the files of a recipe out of the cache, unless they are intact already."""
    if _is_unpacked(contents, folder):
        return
    with temporary_folder(folder, lambda: _is_unpacked(contents, folder)) as temporary:
        for name, blob in contents.files.items():
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(blob_path(blob.digest), path)


def _is_unpacked(contents: RecipeContents, folder: Path) -> bool:
    """Whether a folder has exactly the files of a recipe."""
    if not folder.is_dir():
        return False
    found = dict(atomic_io.iter_files(folder))
    return found.keys() == contents.files.keys() and all(
        f"sha256:{atomic_io.sha256_file(path)}" == contents.files[name].digest for name, path in found.items()
    )
