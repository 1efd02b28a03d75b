"""Reads the few fields of a product that `status`, `logs` and `path` show, without pydantic.

Fields that do not have the expected type are empty. The manifest of a newer release is read as far as
possible.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from posttrain.runtime import atomic_io
from posttrain.runtime.store.document_files import read_limited
from posttrain.spec.document_json import DocumentError, has_valid_checksum, parse_json_object
from posttrain.spec.record import record

# In the product of an adapter, the record of the model that it was trained on.
BASE_FILE = "base.json"
# The file of the record that later steps read, such as the export of a model for its card. Events and logs
# are for readers only: a flipped bit in them is no reason to make a product again.
STEP_FILE = "step.json"
_KEY = re.compile(r"[0-9a-f]{64}\Z")


@record(kw_only=True)
class ProductOutline:
    """A product in the store, by a manifest that matches its checksum."""

    folder: Path
    facts: Mapping[str, Any]
    cost: Mapping[str, Any]
    # The expected size and the sha256 of every file.
    sizes: Mapping[str, int]
    digests: Mapping[str, str]
    # Those of the files of the record that later steps read.
    record_sizes: Mapping[str, int]
    record_digests: Mapping[str, str]

    @property
    def key(self) -> str:
        return self.folder.name

    @property
    def base_keys(self) -> tuple[str, ...]:
        """The keys of the products that this one requires: the base model of an adapter."""
        return base_keys(self.folder) if BASE_FILE in self.digests else ()

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def record(self) -> Path:
        return self.folder / "record"

    @property
    def is_complete(self) -> bool:
        """Whether all files exist with the expected size."""
        return files_have_sizes(self.files, self.sizes) and files_have_sizes(self.record, self.record_sizes)


def read_product_outline(folder: Path) -> ProductOutline | None:
    """The outline of a product; None when its manifest is missing or damaged."""
    try:
        manifest = parse_json_object(read_limited(folder / "manifest.json"))
    except DocumentError:
        return None
    if not has_valid_checksum(manifest):
        return None
    sizes, digests = _sizes_and_digests(manifest.get("files"))
    record_sizes, record_digests = _sizes_and_digests(manifest.get("record"))
    return ProductOutline(
        folder=folder,
        facts=_known_facts(_mapping(manifest.get("facts"))),
        cost=_mapping(manifest.get("cost")),
        sizes=sizes,
        digests=digests,
        record_sizes=record_sizes,
        record_digests=record_digests,
    )


def _sizes_and_digests(listed: Any) -> tuple[Mapping[str, int], Mapping[str, str]]:
    files = {name: _mapping(item) for name, item in _mapping(listed).items()}
    sizes = {name: item.get("size") for name, item in files.items()}
    digests = {name: str(item.get("sha256")) for name, item in files.items()}
    return {name: size for name, size in sizes.items() if isinstance(size, int)}, digests


def product_folder(files: Path) -> Path:
    """The folder of the product with these files, which can be those of one output of a script."""
    return files.parent.parent if files.parent.name == "files" else files.parent


def base_keys(folder: Path) -> tuple[str, ...]:
    """The keys of the products that the product in a folder requires, whatever its manifest says."""
    found = atomic_io.read_json(folder / "files" / BASE_FILE)
    key = found.get("key") if isinstance(found, dict) else None
    return (key,) if isinstance(key, str) and _KEY.match(key) else ()


def _known_facts(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The facts without metrics and conditions that do not have the fields of this release."""
    found = dict(facts)
    if "metrics" in facts:
        metrics = _mapping(facts["metrics"]).items()
        found["metrics"] = {name: one for name, one in metrics if _has_numbers(one, "value", "low", "high")}
    if "conditions" in facts:
        conditions = facts["conditions"] if isinstance(facts["conditions"], list) else []
        found["conditions"] = [one for one in conditions if _has_numbers(one, "value", "low", "high")]
    return found


def _has_numbers(value: Any, *names: str) -> bool:
    """Whether a mapping has numbers or null under these names."""
    found = _mapping(value)
    return all(name in found and isinstance(found[name], int | float | None) for name in names)


def files_have_sizes(files: Path, sizes: Mapping[str, int]) -> bool:
    """Whether all files exist in a folder with their sizes."""
    try:  # os.lstat on a string, because this runs for every file of every step
        return all(os.lstat(f"{files}/{name}").st_size == size for name, size in sizes.items())
    except (OSError, ValueError):  # a name with a null character
        return False


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}
