"""Verifies products and the products that they depend on, before a step or a user reads them."""

from collections.abc import Iterator

from posttrain.runtime.store.products import Product, Store
from posttrain.spec.record import record

# The stat data of the files of a product at the time of their verification.
_FileStats = tuple[tuple[str, int, int, int], ...]


@record
class Damage:
    """A damaged product, with the reason."""

    key: str
    reason: str


class IntegrityChecker:
    """Verifies the digests of a product once per run, and later only the stat data of its files."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._verified: dict[str, _FileStats] = {}

    def check(self, product: Product) -> Damage | None:
        """The damage of a product or of one that it depends on; None when all are intact."""
        problem = self._check_files(product)
        if problem is not None:
            return Damage(product.key, problem)
        for key in product.base_keys:
            base = self._store.find(key)
            damage = self.check(base) if base else Damage(key, "it is missing from the store")
            if damage is not None:
                return damage
        return None

    def _check_files(self, product: Product) -> str | None:
        stats = tuple(_stat_files(product))
        if self._verified.get(product.key) == stats:
            return None
        problem = self._store.integrity_problem(product)
        if problem is None:
            self._verified[product.key] = stats
        return problem


def _stat_files(product: Product) -> Iterator[tuple[str, int, int, int]]:
    for name in product.manifest["files"]:
        try:
            found = (product.files / name).stat()
        except OSError:
            yield name, -1, -1, -1
        else:
            yield name, found.st_ino, found.st_size, found.st_mtime_ns
