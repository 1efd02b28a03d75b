"""Verifies products and the products that they depend on, before a step reads them."""

from collections.abc import Iterator

from posttrain.runtime.store.products import Product, Store
from posttrain.spec.record import record

# The files of a product as they were when they were found sound.
_FileStats = tuple[tuple[str, int, int, int], ...]


@record
class Damage:
    """A product that must not be used."""

    key: str
    reason: str


class IntegrityChecker:
    """Reads a product through once a run; after that, whether its files are still the same ones."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._verified: dict[str, _FileStats] = {}

    def check(self, product: Product) -> Damage | None:
        """What is wrong with a product or with one that it depends on; None when both are intact."""
        problem = self._check_files(product)
        if problem is not None:
            return Damage(product.key, problem)
        for key in product.base_keys:
            base = self._store.find(key)
            damage = self.check(base) if base else Damage(key, "it is not in the store any more")
            if damage is not None:
                return damage
        return None

    def _check_files(self, product: Product) -> str | None:
        seen = tuple(_stat_files(product))
        if self._verified.get(product.key) == seen:
            return None
        problem = self._store.integrity_problem(product)
        if problem is None:
            self._verified[product.key] = seen
        return problem


def _stat_files(product: Product) -> Iterator[tuple[str, int, int, int]]:
    for name in product.manifest["files"]:
        try:
            found = (product.files / name).stat()
        except OSError:
            yield name, -1, -1, -1
        else:
            yield name, found.st_ino, found.st_size, found.st_mtime_ns
