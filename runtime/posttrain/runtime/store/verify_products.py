"""Verifies products: manifest checksums, file digests, stray files, and the products they depend on."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from posttrain.runtime import atomic_io
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.products import Product, Store
from posttrain.runtime.store.verify_findings import Finding, VerifyProgress


def verify_products(home: Home, progress: VerifyProgress) -> Iterator[Finding]:
    for key in home.store.all_keys():
        progress.count("products")
        product = home.store.find_manifest(key)
        problem = _find_problem(home.store, key, product, progress)
        if problem is not None:
            yield Finding(
                kind="product",
                name=key,
                step=product.manifest["step"] if product else "?",
                problem=problem,
                repair=partial(_quarantine, home.store, key),
                repair_note="quarantined: the next run rebuilds it",
            )
        progress.advance(product_bytes(home.store, key))


def _find_problem(store: Store, key: str, product: Product | None, progress: VerifyProgress) -> str | None:
    """The problem of a product, as text; None when it is intact."""
    if product is None:
        return "its manifest is missing or damaged"
    progress.count("files", len(product.manifest["files"]))
    what = store.integrity_problem(product) or _find_stray_file(product)
    if what is None and product.manifest["key"] != key:
        what = f"it belongs under the key {product.manifest['key']}"
    missing = (
        [base for base in product.base_keys if store.find_manifest(base) is None] if what is None else []
    )
    return f"it depends on the product {missing[0]}, which is missing" if missing else what


def _find_stray_file(product: Product) -> str | None:
    """A file that is not in the manifest, or a dangling link, as text."""
    for name, _ in atomic_io.iter_files(product.files):
        if name not in product.manifest["files"]:
            return f"the file {name} is not in its manifest"
    link = next(dangling_links(product.folder), None)
    return None if link is None else f"the link {link.relative_to(product.folder)} is dangling"


def dangling_links(folder: Path) -> Iterator[Path]:
    """The dangling links below a folder."""
    return (path for path in sorted(folder.rglob("*")) if path.is_symlink() and not path.exists())


def product_bytes(store: Store, key: str) -> int:
    """The size of a product according to its manifest."""
    product = store.find_manifest(key)
    return sum(item["size"] for item in product.manifest["files"].values()) if product else 0


def _quarantine(store: Store, key: str) -> None:
    store.quarantine(key)
