"""The launch that produced a product, as recorded in its manifest, and its differences from a plan.

A product is cached for every launch that has the same key. The record tells which one produced it.
"""

from typing import TYPE_CHECKING

from posttrain.runtime.store.products import Product
from posttrain.spec.keys import digest

if TYPE_CHECKING:
    from posttrain.spec.plan import Step
    from posttrain.spec.product_manifest import LaunchRecord


def launch_record(step: "Step") -> "LaunchRecord":
    """The launch of a step, for the manifest of its product."""
    from posttrain.spec.product_manifest import LaunchRecord

    return LaunchRecord(
        nodes=step.launch.nodes,
        processes=step.launch.processes,
        strategy=step.launch.strategy,
        engine=step.launch.engine,
        micro_batch_size=_micro_batch_size(step),
    )


def launch_digest(launch: "LaunchRecord") -> str:
    """A short digest of a launch, which distinguishes products of the same key."""
    return digest(launch.model_dump())[:16]


def cache_note(product: Product, step: "Step") -> str:
    """What to know about a cached product: its adoption, and a launch that differs from the plan's."""
    difference = launch_difference(product.manifest.launch, step)
    return "; ".join(filter(None, (product.adoption_note, difference)))


def launch_difference(before: "LaunchRecord", step: "Step") -> str:
    """The differences of the launch that produced a product from the plan's, as text."""
    now = launch_record(step)
    texts: list[tuple[str, str]] = []
    if (before.nodes, before.processes, before.strategy) != (now.nodes, now.processes, now.strategy):
        texts.append((_processes_text(before), _processes_text(now)))
    if before.micro_batch_size != now.micro_batch_size:
        texts.append((_micro_batch_text(before), _micro_batch_text(now)))
    if before.engine != now.engine:
        texts.append((_engine_text(before), _engine_text(now)))
    if not texts:
        return ""
    verb = "trained" if step.kind == "train" else "made"
    theirs, ours = (" and ".join(side) for side in zip(*texts, strict=True))
    return f"{verb} with {theirs}, the plan has {ours}"


def _micro_batch_size(step: "Step") -> int | None:
    """The micro-batch size of a training step; None if the batch is not divided."""
    params = step.params.get("params") if isinstance(step.params, dict) else None
    size = params.get("micro_batch_size") if isinstance(params, dict) else None
    return size if isinstance(size, int) else None


def _processes_text(launch: "LaunchRecord") -> str:
    if launch.processes == 1:
        return "1 process"
    over = f" on {launch.nodes} nodes" if launch.nodes > 1 else ""
    return f"{launch.processes} processes{over} ({launch.strategy})"


def _micro_batch_text(launch: "LaunchRecord") -> str:
    size = launch.micro_batch_size
    return "no micro_batch_size" if size is None else f"micro_batch_size {size}"


def _engine_text(launch: "LaunchRecord") -> str:
    return f"the engine {launch.engine}" if launch.engine else "no engine"
