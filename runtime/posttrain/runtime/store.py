"""The store: finished products, immutable, each under its key.

    store/KEY/manifest.json    size and sha256 of every file, what made it, and from what
    store/KEY/files/           the product
    store/KEY/record/          step.json, events.jsonl and the log of its making

A product comes into being by one rename of a folder that is complete and on the disk.
"""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.runtime import durable
from posttrain.spec.keys import digest

FORMAT = 1


@dataclass(frozen=True)
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
    def content(self) -> str:
        """One digest of what the product holds, whenever and wherever it was made."""
        return digest({name: item["sha256"] for name, item in self.manifest["files"].items()})


class Store:
    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, key: str) -> Product | None:
        """The product of a key, if it is there with all its files in their sizes."""
        folder = self.root / key
        manifest = durable.read_json(folder / "manifest.json")
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            return None
        product = Product(key, folder, manifest)
        return product if all(_same_size(product, name) for name in manifest["files"]) else None

    def damage(self, product: Product) -> str | None:
        """What is wrong with a product, held to its digests; None when nothing is."""
        for name, item in product.manifest["files"].items():
            path = product.files / name
            if not path.is_file():
                return f"{name} is missing"
            if durable.sha256_of(path) != item["sha256"]:
                return f"{name} does not have the digest that its manifest gives"
        return None

    def set_aside(self, key: str) -> Path | None:
        """Move what stands under a key out of the way, so that it can be made again."""
        folder = self.root / key
        if not folder.exists():
            return None
        aside = self.root / ".damaged" / f"{key}-{time.time_ns()}"
        aside.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(aside)
        return aside

    def commit(self, key: str, files: Path, record: Path, about: Mapping[str, Any]) -> Product:
        """Bring a finished step into the store. After this the folders given are gone."""
        self.root.mkdir(parents=True, exist_ok=True)
        staged = files.parent / "commit"
        if staged.exists():
            shutil.rmtree(staged)
        staged.mkdir()
        manifest = {"format": FORMAT, "key": key, "files": durable.digests(files), **about}
        files.rename(staged / "files")
        record.rename(staged / "record")
        durable.write_json(staged / "manifest.json", manifest)
        durable.sync_tree(staged)
        self.set_aside(key)  # what was found unusable before the step ran again
        staged.rename(self.root / key)
        durable.sync_folder(self.root)
        return Product(key, self.root / key, manifest)


def _same_size(product: Product, name: str) -> bool:
    try:
        return (product.files / name).stat().st_size == product.manifest["files"][name]["size"]
    except OSError:
        return False
