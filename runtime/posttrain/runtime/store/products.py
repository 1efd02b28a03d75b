"""The store of finished products, which are immutable and addressed by key.

    store/KEY/manifest.json    size and sha256 of every file, the step, its launch, and the values of the key
    store/KEY/files/           the product
    store/KEY/record/          step.json, events.jsonl and the log of the step

A product is published by one rename of a complete folder that is on the disk. The digests in the manifest
cover the files; the checksum of the manifest covers facts and verdicts.
"""

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.store.checksums import read_checksummed, with_checksum
from posttrain.spec.keys import digest
from posttrain.spec.record import record

FORMAT = 2
_QUARANTINE = ".damaged"


@record
class Product:
    """A finished product."""

    key: str
    folder: Path
    manifest: Mapping[str, Any]

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def record(self) -> Path:
        return self.folder / "record"

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.manifest["facts"]

    @property
    def content_digest(self) -> str:
        """One digest of the files of the product, independent of its key."""
        return digest({name: item["sha256"] for name, item in self.manifest["files"].items()})

    @property
    def adoption_note(self) -> str:
        """Where an adopted product comes from, as text; empty for any other product."""
        found = self.manifest.get("adopted")
        if not found:
            return ""
        return f"adopted from {found['from'][:10]} ({' and '.join(found['differs'])}): {found['because']}"

    @property
    def base_keys(self) -> tuple[str, ...]:
        """The keys of the products that this one requires: the base model of an adapter."""
        from posttrain.runtime.models.peft_adapters import BASE_FILE

        if BASE_FILE not in self.manifest["files"]:
            return ()
        found = atomic_io.read_json(self.files / BASE_FILE)
        return (str(found["key"]),) if isinstance(found, dict) and "key" in found else ()


class Store:
    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, key: str) -> Product | None:
        """The product of a key, if all its files exist with the expected size."""
        product = self.find_manifest(key)
        if product is None:
            return None
        return (
            product if all(_has_expected_size(product, name) for name in product.manifest["files"]) else None
        )

    def find_manifest(self, key: str) -> Product | None:
        """The product of a key by its manifest, without a check of its files."""
        folder = self.root / key
        manifest = read_checksummed(folder / "manifest.json")
        if manifest is None or manifest["format"] != FORMAT:
            return None
        return Product(key, folder, manifest)

    def all_keys(self) -> list[str]:
        """All keys with a folder in the store, complete or not."""
        if not self.root.is_dir():
            return []
        return sorted(path.name for path in self.root.iterdir() if path.name != _QUARANTINE)

    def quarantined(self) -> Iterator[Path]:
        """The folders of quarantined products."""
        quarantine = self.root / _QUARANTINE
        yield from sorted(quarantine.iterdir()) if quarantine.is_dir() else ()

    def integrity_problem(self, product: Product) -> str | None:
        """The first file that does not match its digest, as text; None when the product is intact."""
        for name, item in product.manifest["files"].items():
            path = product.files / name
            if not path.is_file():
                return f"{name} is missing"
            if atomic_io.sha256_file(path) != item["sha256"]:
                return f"{name} does not match the digest in its manifest"
        return None

    def quarantine(self, key: str) -> Path | None:
        """Move the folder of a key to the quarantine, so that the product can be rebuilt."""
        folder = self.root / key
        if not folder.exists():
            return None
        target = self.root / _QUARANTINE / f"{key}-{time.time_ns()}"
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)
        return target

    def commit(
        self, key: str, files: Path, record: Path, digests: Mapping[str, Any], about: Mapping[str, Any]
    ) -> Product:
        """Publish a finished step, whose files are on the disk already. Moves `files` and `record` away."""
        self.root.mkdir(parents=True, exist_ok=True)
        staged = files.parent / "commit"
        if staged.exists():
            shutil.rmtree(staged)
        staged.mkdir()
        manifest = with_checksum({"format": FORMAT, "key": key, "files": dict(digests), **about})
        files.rename(staged / "files")
        record.rename(staged / "record")
        atomic_io.sync_tree(staged / "record")
        atomic_io.write_json(staged / "manifest.json", manifest)
        self.publish(key, staged)
        return Product(key, self.root / key, manifest)

    def publish(self, key: str, staged: Path) -> None:
        """Rename a complete folder, which is on the disk, to its key."""
        self.quarantine(key)  # an unusable product, because of which the step ran again
        staged.rename(self.root / key)
        atomic_io.sync_folder(self.root)


def _has_expected_size(product: Product, name: str) -> bool:
    try:  # os.lstat on a string, because this runs for every file of every step
        return os.lstat(f"{product.folder}/files/{name}").st_size == product.manifest["files"][name]["size"]
    except OSError:
        return False
