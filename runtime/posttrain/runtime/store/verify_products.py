"""Verifies products: manifest checksums, file digests, stray files, and the products they depend on."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from posttrain.runtime import atomic_io
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.integrity import integrity_problem
from posttrain.runtime.store.product_outline import ProductOutline
from posttrain.runtime.store.products import Product, Store
from posttrain.runtime.store.verify_findings import Finding, VerifyProgress, finding_text
from posttrain.spec.document_json import DocumentError, NewerFormatError


def verify_products(home: Home, progress: VerifyProgress) -> Iterator[Finding]:
    for key in home.store.all_keys():
        progress.count("products")
        try:
            product = home.store.read(key)
        except DocumentError as error:
            yield _finding(home.store, key, "?", error)
            continue
        problem = _find_problem(home.store, product, progress)
        if problem is not None:
            yield _finding(home.store, key, product.manifest.step, DocumentError(problem))
        progress.advance(product_bytes(product))


def _finding(store: Store, key: str, step: str, error: DocumentError) -> Finding:
    newer = isinstance(error, NewerFormatError)
    return Finding(
        kind="product",
        name=key,
        step=step,
        problem=finding_text(error),
        repair=None if newer else partial(_quarantine, store, key),
        repair_note="quarantined: the next run rebuilds it",
    )


def _find_problem(store: Store, product: Product, progress: VerifyProgress) -> str | None:
    """The problem of a product with a valid manifest, as text; None when it is intact."""
    progress.count("files", len(product.manifest.files))
    what = integrity_problem(product) or _find_stray_file(product)
    if what is not None:
        return what
    missing = next((base for base in product.base_keys if not _is_known(store, base)), None)
    return f"it depends on the product {missing}, which is missing" if missing else None


def _is_known(store: Store, key: str) -> bool:
    return store.find_manifest(key) is not None or store.is_newer(key)


def _find_stray_file(product: Product) -> str | None:
    """A file that is not in the manifest, or a dangling link, as text."""
    for name, _ in atomic_io.iter_files(product.files):
        if name not in product.manifest.files:
            return f"the file {name} is not in its manifest"
    link = next(dangling_links(product.folder), None)
    return None if link is None else f"the link {link.relative_to(product.folder)} is dangling"


def dangling_links(folder: Path) -> Iterator[Path]:
    """The dangling links below a folder."""
    return (path for path in sorted(folder.rglob("*")) if path.is_symlink() and not path.exists())


def product_bytes(product: Product | ProductOutline) -> int:
    """The size of a product according to its manifest."""
    return sum(product.sizes.values())


def _quarantine(store: Store, key: str) -> None:
    store.quarantine(key)
