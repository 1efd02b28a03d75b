"""Holds a whole store to its manifests: every file is read again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from posttrain.runtime.home import Home
from posttrain.runtime.locks import try_lock
from posttrain.runtime.store import Store


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A product that must not be used."""

    key: str
    # What made it, where that can still be told.
    step: str
    what: str


def verify(store: Store, advance: Callable[[int], None]) -> Iterator[Finding]:
    """The damaged products of a store. Told of the bytes read as it goes on."""
    for key in store.all_keys():
        product = store.stated(key)
        if product is None:
            yield Finding(key=key, step="?", what="its manifest is missing or damaged")
            continue
        what = store.damage(product)
        if what is None and product.manifest["key"] != key:
            what = f"it belongs under the key {product.manifest['key']}"
        missing = [base for base in product.stands_on if store.stated(base) is None] if what is None else []
        if missing:
            what = f"it stands on the product {missing[0]}, which is not there"
        if what is not None:
            yield Finding(key=key, step=product.manifest["step"], what=what)
        advance(volume(store, key))


def volume(store: Store, key: str) -> int:
    """The bytes that a product should hold."""
    product = store.stated(key)
    return sum(item["size"] for item in product.manifest["files"].values()) if product else 0


def repair(home: Home, finding: Finding) -> bool:
    """Set a damaged product aside, so that the next run makes it again; not while somebody uses it."""
    lock = try_lock(home.lock(finding.key))
    if lock is None:
        return False
    home.store.set_aside(finding.key)
    lock.release()
    return True
