"""Adopts an older product for a step whose key differs only in the environment, and records the adoption.

The environment part of the key and the versions of extensions can differ. An input can have another key
when its product has the same bytes. Any other difference prevents the adoption.
"""

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.runtime import atomic_io
from posttrain.runtime.store.document_files import write_document
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.integrity import integrity_problem
from posttrain.runtime.store.key_diff import describe_change
from posttrain.runtime.store.products import Product, Store

if TYPE_CHECKING:
    from posttrain.spec.plan import Step
    from posttrain.spec.product_manifest import Manifest


ADOPTABLE_PARTS = ("environment", "extensions")


class AdoptionError(Exception):
    """No older product can be adopted, with the reason."""


def differing_parts(step: "Step", product: Product, store: Store) -> tuple[list[str], list[str]]:
    """The differing parts of the key of a product and of a step: the adoptable ones, and the others."""
    before: Mapping[str, str] = product.manifest.key_parts
    names = sorted(n for n in {*before, *step.key_parts} if before.get(n) != step.key_parts.get(n))
    values: Mapping[str, Any] = product.manifest.key_values
    others = [
        name
        for name in names
        if not _is_adoptable_change(name, values.get(name), step.key_values.get(name), store)
    ]
    return [name for name in names if name in ADOPTABLE_PARTS and name not in others], others


def _is_adoptable_change(name: str, was: Any, now: Any, store: Store) -> bool:
    if not isinstance(was, dict) or not isinstance(now, dict):
        return False
    if name == "extensions":
        return was.keys() == now.keys()  # other versions, not other extensions
    if name.startswith("input."):
        return was.get("part") == now["part"] and _same_bytes(str(was.get("key")), now["key"], store)
    return name == "environment"


def _same_bytes(was: str, now: str, store: Store) -> bool:
    new, old = store.find(now), store.find(was)
    if new is None:
        return False
    return _original_key(new) == was or (old is not None and old.content_digest == new.content_digest)


def _original_key(product: Product) -> str:
    return product.manifest.adopted.from_ if product.manifest.adopted else product.key


def find_adoptable(step: "Step", store: Store) -> Product:
    """The newest product that a step can adopt. Raises `AdoptionError` with the other differences."""
    nearest: tuple[int, str] | None = None
    fitting: list[Product] = []
    damaged = False
    for key in store.all_keys():
        product = store.find(key)
        damaged = damaged or product is None
        if product is None or product.manifest.kind != step.kind or key == step.key:
            continue
        _, others = differing_parts(step, product, store)
        if not others:
            fitting.append(product)
        elif product.manifest.step == step.id and (nearest is None or len(others) < nearest[0]):
            nearest = len(others), _describe_differences(step, product, others)
    if fitting:
        return max(fitting, key=lambda product: (product.folder / "manifest.json").stat().st_mtime_ns)
    reason = nearest[1] if nearest else f"the store has no older product of `{step.id}`"
    raise AdoptionError(f"{reason}; `recipe verify` lists damaged products" if damaged else reason)


def _describe_differences(step: "Step", product: Product, others: list[str]) -> str:
    reasons: list[str] = []
    for name in others[:3]:
        if name.startswith("input.") and name[6:] in step.inputs:
            reasons.append(f"its input `{step.inputs[name[6:]].step}` changed (adopt or run that step first)")
        else:
            reasons.append(describe_change(name, product.manifest.key_values, step.key_values))
    return f"not only the environment differs from {product.key[:10]}: {'; '.join(reasons)}"


def adopt(home: Home, step: "Step", old: Product, because: str) -> Product:
    """Publish an older product under the key of the step, by hard links. The caller holds the lock."""
    damage = integrity_problem(old)
    if damage is not None:
        raise AdoptionError(f"the older product {old.key[:10]} is damaged: {damage}")
    adoptable, _ = differing_parts(step, old, home.store)
    staged = home.workdir(step.key) / "commit"
    if staged.exists():
        shutil.rmtree(staged)
    staged.mkdir(parents=True)
    _link_files(old.files, staged / "files")
    shutil.copytree(old.record, staged / "record")
    write_document(staged / "manifest.json", _adopting_manifest(step, old, adoptable, because))
    atomic_io.sync_tree(staged)
    home.store.publish(step.key, staged)
    shutil.rmtree(home.workdir(step.key), ignore_errors=True)
    adopted_product = home.store.find(step.key)
    assert adopted_product is not None, "the adopted product is in the store"
    return adopted_product


def _adopting_manifest(step: "Step", old: Product, adoptable: list[str], because: str) -> "Manifest":
    """The manifest of an older product under the key of the step."""
    from posttrain.spec.document_reader import create_document
    from posttrain.spec.product_manifest import Adoption, Manifest

    adopted = {"from": _original_key(old), "differs": adoptable, "because": because, "at": round(time.time())}
    fields = {
        **dict(old.manifest),
        "key": step.key,
        "step": step.id,
        "key_parts": step.key_parts,
        "key_values": step.key_values,
        "adopted": Adoption.model_validate(adopted),
    }
    return create_document(Manifest, **fields)


def _link_files(files: Path, to: Path) -> None:
    """Hard links to the same files in another folder."""
    to.mkdir()
    for name, path in atomic_io.iter_files(files):
        target = to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, target)
