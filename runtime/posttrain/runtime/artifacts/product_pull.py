"""Copies a product from a registry to a folder: a model that other programs can load."""

import shutil
from collections.abc import Callable
from pathlib import Path

from posttrain.runtime.artifacts import media_types
from posttrain.runtime.artifacts.product_artifact import (
    MANIFEST_FILE,
    RECORD_FOLDER,
    check_product,
    parse_product_artifact,
)
from posttrain.runtime.artifacts.pulled_folder import pulled_folder
from posttrain.runtime.registry.manifest_reader import FetchedManifest
from posttrain.runtime.registry.oci_manifest import parse_manifest
from posttrain.runtime.registry.registry_client import RegistryClient
from posttrain.runtime.registry.registry_errors import ContentError
from posttrain.runtime.report.number_format import format_size


def is_product(found: FetchedManifest) -> bool:
    types = (media_types.MODEL_ARTIFACT, media_types.PRODUCT_ARTIFACT)
    return parse_manifest(found.data).artifact_type in types


def pull_product(
    client: RegistryClient, found: FetchedManifest, target: Path, on_size: Callable[[int, int], None]
) -> int:
    """Write the files of a product, its manifest and its record to a folder, which must be empty or new. An
    interrupted download continues with the next command.

    `on_size` gets how many bytes there are, and how many there will be. Returns the number of files of the
    product. Raises RegistryError.
    """
    contents = parse_product_artifact(found.data)
    check_product(contents, client.read_blob(contents.manifest))
    records = {f"{RECORD_FOLDER}{name}": layer for name, layer in contents.records.items()}
    layers = {**contents.files, MANIFEST_FILE: contents.manifest, **records}
    total = sum(layer.size for layer in layers.values())
    done = 0
    # With its origin: a recipe among the files is not one of the user.
    with pulled_folder(target, found.digest, str(client.reference.pinned(found.digest))) as folder:
        _check_space(folder, total)
        for name, layer in layers.items():
            client.download_blob(
                layer, folder / name, lambda size, before=done: on_size(before + size, total)
            )
            done += layer.size
    return len(contents.files)


def _check_space(folder: Path, total: int) -> None:
    """Refuse a product that does not fit: its publisher says how large it is."""
    existing = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    free = shutil.disk_usage(folder).free
    if total - existing > free:
        message = f"the product has {format_size(total)}, and {format_size(free)} are free at {folder.parent}"
        raise ContentError(message, "name a folder on another disk")
