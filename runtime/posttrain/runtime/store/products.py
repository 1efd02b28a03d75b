"""The store of finished products, which are immutable and addressed by key.

    store/KEY/manifest.json    size and sha256 of every file, the step, its launch, and the values of the key
    store/KEY/files/           the product
    store/KEY/record/          step.json, events.jsonl and the log of the step

A product is published by one rename of a complete folder that is on the disk. The digests in the manifest
cover the files and step.json, which later steps read; the checksum of the manifest covers facts and verdicts.
"""

import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.runtime import atomic_io
from posttrain.runtime.store.document_files import read_document, write_document
from posttrain.runtime.store.product_outline import (
    BASE_FILE,
    ProductOutline,
    base_keys,
    files_have_sizes,
    read_product_outline,
)
from posttrain.spec.document_json import DocumentError, NewerFormatError
from posttrain.spec.keys import digest
from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.spec.product_manifest import Manifest

_QUARANTINE = ".damaged"


@record
class Product:
    """A finished product."""

    key: str
    folder: Path
    manifest: "Manifest"

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def record(self) -> Path:
        return self.folder / "record"

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.manifest.facts

    @property
    def cost(self) -> Mapping[str, float]:
        return self.manifest.cost

    @property
    def sizes(self) -> Mapping[str, int]:
        """The expected size of every file."""
        return {name: item.size for name, item in self.manifest.files.items()}

    @property
    def digests(self) -> Mapping[str, str]:
        """The sha256 of every file."""
        return {name: item.sha256 for name, item in self.manifest.files.items()}

    @property
    def record_digests(self) -> Mapping[str, str]:
        """The sha256 of the files of the record that later steps read."""
        return {name: item.sha256 for name, item in self.manifest.record.items()}

    @property
    def is_complete(self) -> bool:
        """Whether all files exist with the expected size."""
        record_sizes = {name: item.size for name, item in self.manifest.record.items()}
        return files_have_sizes(self.files, self.sizes) and files_have_sizes(self.record, record_sizes)

    @property
    def content_digest(self) -> str:
        """One digest of the files of the product, independent of its key."""
        return digest(self.digests)

    @property
    def adoption_note(self) -> str:
        """Where an adopted product comes from, as text; empty for any other product."""
        found = self.manifest.adopted
        if found is None:
            return ""
        return f"adopted from {found.from_[:10]} ({' and '.join(found.differs)}): {found.because}"

    @property
    def base_keys(self) -> tuple[str, ...]:
        """The keys of the products that this one requires: the base model of an adapter."""
        return base_keys(self.folder) if BASE_FILE in self.digests else ()


class Store:
    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, key: str) -> Product | None:
        """The product of a key, if all its files exist with the expected size."""
        product = self.find_manifest(key)
        return product if product and product.is_complete else None

    def find_manifest(self, key: str) -> Product | None:
        """The product of a key by its manifest, without a check of its files."""
        try:
            return self.read(key)
        except DocumentError:
            return None

    def find_outline(self, key: str) -> ProductOutline | None:
        """The outline of the product of a key, for commands that start without pydantic."""
        return read_product_outline(self.root / key)

    def read(self, key: str) -> Product:
        """The product of a key by its manifest. Raises `DocumentError` when the manifest is not valid."""
        from posttrain.spec.product_manifest import Manifest

        folder = self.root / key
        path = folder / "manifest.json"
        manifest = read_document(Manifest, path)
        if manifest.key != key:
            raise DocumentError(f"{path}: it belongs under the key {manifest.key}", Manifest.ADVICE)
        return Product(key, folder, manifest)

    def manifest_error(self, key: str) -> DocumentError | None:
        """Why the product of a key is not usable; None when it is, or when there is none."""
        if not (self.root / key).exists():
            return None
        try:
            self.read(key)
        except DocumentError as error:
            return error
        return None

    def is_newer(self, key: str) -> bool:
        """Whether a newer release made the product of a key, so that this one cannot judge it."""
        return isinstance(self.manifest_error(key), NewerFormatError)

    def all_keys(self) -> list[str]:
        """All keys with a folder in the store, complete or not."""
        if not self.root.is_dir():
            return []
        return sorted(path.name for path in self.root.iterdir() if path.name != _QUARANTINE)

    def quarantined(self) -> Iterator[Path]:
        """The folders of quarantined products."""
        quarantine = self.root / _QUARANTINE
        yield from sorted(quarantine.iterdir()) if quarantine.is_dir() else ()

    def quarantine(self, key: str) -> Path | None:
        """Move the folder of a key to the quarantine, so that the product can be rebuilt."""
        folder = self.root / key
        if not folder.exists():
            return None
        target = self.root / _QUARANTINE / f"{key}-{time.time_ns()}"
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)
        return target

    def commit(self, manifest: "Manifest", files: Path, record: Path) -> Product:
        """Publish a finished step, whose files are on the disk already. Moves `files` and `record` away."""
        self.root.mkdir(parents=True, exist_ok=True)
        staged = files.parent / "commit"
        if staged.exists():
            shutil.rmtree(staged)
        staged.mkdir()
        files.rename(staged / "files")
        record.rename(staged / "record")
        atomic_io.sync_tree(staged / "record")
        write_document(staged / "manifest.json", manifest)
        self.publish(manifest.key, staged)
        return Product(manifest.key, self.root / manifest.key, manifest)

    def publish(self, key: str, staged: Path) -> None:
        """Rename a complete folder, which is on the disk, to its key."""
        self.quarantine(key)  # an unusable product, because of which the step ran again
        staged.rename(self.root / key)
        atomic_io.sync_folder(self.root)
