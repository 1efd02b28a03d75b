"""Verifies products and the products that they depend on, before a step or a user reads them."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from posttrain.runtime import atomic_io
from posttrain.spec.record import record

INCOMPLETE = "a file is missing or has another size"
DAMAGE_ADVICE = "`recipe verify --repair` moves it aside; the next run makes it again"
# The stat data of the files of a product at the time of their verification.
_FileStats = tuple[tuple[str, int, int, int], ...]


class StoredProduct(Protocol):
    """A product or its outline."""

    @property
    def key(self) -> str: ...
    @property
    def files(self) -> Path: ...
    @property
    def record(self) -> Path: ...
    @property
    def digests(self) -> Mapping[str, str]: ...
    @property
    def record_digests(self) -> Mapping[str, str]: ...
    @property
    def base_keys(self) -> tuple[str, ...]: ...


@record
class Damage:
    """A damaged product, with the reason."""

    key: str
    reason: str


def integrity_problem(product: StoredProduct) -> str | None:
    """The first file that does not match its digest, as text; None when the product is intact."""
    return _mismatch(product.files, product.digests) or record_problem(product)


def record_problem(product: StoredProduct) -> str | None:
    """The first file of the record that does not match its digest, as text. Manifests of earlier releases
    have no digest of it."""
    found = _mismatch(product.record, product.record_digests)
    return None if found is None else f"record/{found}"


def _mismatch(folder: Path, digests: Mapping[str, str]) -> str | None:
    for name, expected in digests.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if atomic_io.sha256_file(path) != expected:
            return f"{name} does not match the digest in its manifest"
    return None


class IntegrityChecker:
    """Verifies the digests of a product once per run, and later only the stat data of its files."""

    def __init__(self, find: Callable[[str], StoredProduct | None]) -> None:
        """`find` finds a product by its key."""
        self._find = find
        self._verified: dict[str, _FileStats] = {}

    def check(self, product: StoredProduct) -> Damage | None:
        """The damage of a product or of one that it depends on; None when all are intact."""
        problem = self._check_files(product)
        if problem is not None:
            return Damage(product.key, problem)
        for key in product.base_keys:
            base = self._find(key)
            damage = self.check(base) if base else Damage(key, "it is missing from the store")
            if damage is not None:
                return damage
        return None

    def _check_files(self, product: StoredProduct) -> str | None:
        stats = tuple(_stat_files(product))
        if self._verified.get(product.key) == stats:
            return None
        problem = integrity_problem(product)
        if problem is None:
            self._verified[product.key] = stats
        return problem


def _stat_files(product: StoredProduct) -> Iterator[tuple[str, int, int, int]]:
    files = [(name, product.files / name) for name in product.digests]
    files += [(f"record/{name}", product.record / name) for name in product.record_digests]
    for name, path in files:
        try:
            found = path.stat()
        except OSError:
            yield name, -1, -1, -1
        else:
            yield name, found.st_ino, found.st_size, found.st_mtime_ns
