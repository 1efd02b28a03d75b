"""Products: seals of manifests, digests of files, what stands beside them, and what they stand on."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from posttrain.runtime import durable
from posttrain.runtime.keeping.home import Home
from posttrain.runtime.keeping.store import Product, Store
from posttrain.runtime.verification.finding import Finding, Looked


def products(home: Home, looked: Looked) -> Iterator[Finding]:
    for key in home.store.all_keys():
        looked.at("products")
        product = home.store.stated(key)
        what = _wrong(home.store, key, product, looked)
        if what is not None:
            yield Finding(
                of="product",
                name=key,
                step=product.manifest["step"] if product else "?",
                what=what,
                mend=partial(_set_aside, home.store, key),
                mended="set aside: the next run makes it again",
            )
        looked.advance(volume(home.store, key))


def _wrong(store: Store, key: str, product: Product | None, looked: Looked) -> str | None:
    """What is wrong with one product; None when nothing is."""
    if product is None:
        return "its manifest is missing or damaged"
    looked.at("files", len(product.manifest["files"]))
    what = store.damage(product) or _beside(product)
    if what is None and product.manifest["key"] != key:
        what = f"it belongs under the key {product.manifest['key']}"
    missing = [base for base in product.stands_on if store.stated(base) is None] if what is None else []
    return f"it stands on the product {missing[0]}, which is not there" if missing else what


def _beside(product: Product) -> str | None:
    """Files that its manifest does not name, and links that lead nowhere."""
    for name, _ in durable.files_in(product.files):
        if name not in product.manifest["files"]:
            return f"{name} is not among the files that its manifest names"
    nowhere = next(dangling(product.folder), None)
    return None if nowhere is None else f"the link {nowhere.relative_to(product.folder)} leads nowhere"


def dangling(folder: Path) -> Iterator[Path]:
    """Links below a folder that lead nowhere."""
    return (path for path in sorted(folder.rglob("*")) if path.is_symlink() and not path.exists())


def volume(store: Store, key: str) -> int:
    """The bytes that a product should hold."""
    product = store.stated(key)
    return sum(item["size"] for item in product.manifest["files"].values()) if product else 0


def _set_aside(store: Store, key: str) -> None:
    store.set_aside(key)
