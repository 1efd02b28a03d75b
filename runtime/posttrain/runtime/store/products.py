"""The store: finished products, immutable, each under its key.

    store/KEY/manifest.json    size and sha256 of every file, what made it, and from what
    store/KEY/files/           the product
    store/KEY/record/          step.json, events.jsonl and the log of its making

A product comes into being by one rename of a folder that is complete and on the disk. The manifest
carries a checksum of its own: it covers facts and verdicts as the digests cover the files.
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

FORMAT = 1
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
        """One digest of what the product holds, whenever and wherever it was made."""
        return digest({name: item["sha256"] for name, item in self.manifest["files"].items()})

    @property
    def adoption_note(self) -> str:
        """How the product came by its key, where it was made under another one; else nothing."""
        found = self.manifest.get("adopted")
        if not found:
            return ""
        return f"adopted from {found['from'][:10]} ({' and '.join(found['differs'])}): {found['because']}"

    @property
    def base_keys(self) -> tuple[str, ...]:
        """The keys of the products without which this one cannot be used: an adapter's base."""
        from posttrain.runtime.models.peft_adapters import BASE_FILE

        if BASE_FILE not in self.manifest["files"]:
            return ()
        found = atomic_io.read_json(self.files / BASE_FILE)
        return (str(found["key"]),) if isinstance(found, dict) and "key" in found else ()


class Store:
    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, key: str) -> Product | None:
        """The product of a key, if it is there with all its files in their sizes."""
        product = self.find_manifest(key)
        if product is None:
            return None
        return (
            product if all(_has_expected_size(product, name) for name in product.manifest["files"]) else None
        )

    def find_manifest(self, key: str) -> Product | None:
        """The product of a key as its manifest has it, whatever has become of its files."""
        folder = self.root / key
        manifest = read_checksummed(folder / "manifest.json")
        if manifest is None or manifest["format"] != FORMAT:
            return None
        return Product(key, folder, manifest)

    def all_keys(self) -> list[str]:
        """All keys under which something is stored, complete or not."""
        if not self.root.is_dir():
            return []
        return sorted(path.name for path in self.root.iterdir() if path.name != _QUARANTINE)

    def quarantined(self) -> Iterator[Path]:
        """What has been set aside as damaged."""
        aside = self.root / _QUARANTINE
        yield from sorted(aside.iterdir()) if aside.is_dir() else ()

    def integrity_problem(self, product: Product) -> str | None:
        """What is wrong with a product, held to its digests; None when nothing is."""
        for name, item in product.manifest["files"].items():
            path = product.files / name
            if not path.is_file():
                return f"{name} is missing"
            if atomic_io.sha256_file(path) != item["sha256"]:
                return f"{name} does not have the digest that its manifest gives"
        return None

    def quarantine(self, key: str) -> Path | None:
        """Move what stands under a key out of the way, so that it can be made again."""
        folder = self.root / key
        if not folder.exists():
            return None
        aside = self.root / _QUARANTINE / f"{key}-{time.time_ns()}"
        aside.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(aside)
        return aside

    def commit(
        self, key: str, files: Path, record: Path, digests: Mapping[str, Any], about: Mapping[str, Any]
    ) -> Product:
        """Bring a finished step into the store; its files are on the disk. After this the folders given
        are gone."""
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
        """Rename a folder that is complete and on the disk to its key."""
        self.quarantine(key)  # what was found unusable before the step ran again
        staged.rename(self.root / key)
        atomic_io.sync_folder(self.root)


def _has_expected_size(product: Product, name: str) -> bool:
    try:  # asked of every file of every step, often to find that there is nothing to do
        return os.lstat(f"{product.folder}/files/{name}").st_size == product.manifest["files"][name]["size"]
    except OSError:
        return False
