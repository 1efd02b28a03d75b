"""Follows a model to the products that it was trained from, whose records its card shows."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from posttrain.runtime.store.integrity import Damage, record_problem
from posttrain.runtime.store.products import Product

_MISSING = "it is missing from the store"


def model_lineage(
    product: Product, find: Callable[[str], Product | None]
) -> Iterator[tuple[str, Product | None]]:
    """The keys and products of a model and of those before it, latest first. The last product is None if the
    store does not have it.

    The manifests say which products these are: a checksum protects them.
    """
    key: str | None = product.key
    found: Product | None = product
    seen: set[str] = set()
    while key is not None and key not in seen:
        yield key, found
        seen.add(key)
        key = _parent_key(found) if found is not None else None
        found = None if key is None else find(key)


def lineage_damage(
    product: Product,
    find: Callable[[str], Product | None],
    is_expected: Callable[[str], bool] = lambda _: False,
) -> Damage | None:
    """The damage of a record that the card of a model shows. A card ends where the store has no product,
    unless `is_expected`: a run makes the product of that key."""
    for key, found in model_lineage(product, find):
        problem = record_problem(found) if found is not None else None
        if found is None and is_expected(key):
            problem = _MISSING
        if problem is not None:
            return Damage(key, problem)
    return None


def _parent_key(product: Product) -> str | None:
    parent: Any = product.manifest.key_values.get("input.model")
    key = cast(Mapping[str, Any], parent).get("key") if isinstance(parent, dict) else None
    return key if isinstance(key, str) else None
