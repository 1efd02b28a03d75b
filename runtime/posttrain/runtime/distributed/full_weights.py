"""Reads and writes the full weights of a model that may be sharded over processes.

All functions are collective: every process must call them, because all processes gather a sharded weight.
"""

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

from posttrain.runtime.distributed import process_group


def gather_weights(model: Any) -> dict[str, Any]:
    """Return the full weights on rank 0, and an empty dict on the other ranks."""
    weights: dict[str, Any] = {}
    for name, weight in model.named_parameters():
        with _gathered_weight(weight):
            whole = weight.full_tensor() if _is_fsdp(weight) else weight
            if process_group.is_rank_zero():
                # DeepSpeed frees the gathered weight on exit, so it must be copied.
                weights[name] = whole.detach().to("cpu", copy=_is_deepspeed(weight)).contiguous()
    return weights


def assign_weights(model: Any, weights: Mapping[str, Any]) -> None:
    """Replace a model's weights by full weights, which every process has read."""
    import torch

    with torch.no_grad():
        for name, weight in model.named_parameters():
            with _gathered_weight(weight, changed=True):
                weight.copy_(_shard_like(weight, weights[name]) if _is_fsdp(weight) else weights[name])


def sync_reference_weights(reference: Any, model: Any, share: float) -> None:
    """Move each weight of the reference model towards the model by `share`, if ZeRO-3 has sharded both alike.

    Every process updates its shards, and the full copies of small weights that DeepSpeed retains.
    """
    import torch

    with torch.no_grad():
        for ours, theirs in zip(reference.parameters(), model.parameters(), strict=True):
            ours.ds_tensor.data.mul_(1.0 - share).add_(theirs.ds_tensor.data, alpha=share)
            if _is_available(ours):
                with _gathered_weight(theirs):
                    ours.data.mul_(1.0 - share).add_(theirs.data, alpha=share)


@contextmanager
def unsharded_model(model: Any, strategy: str) -> Generator[None]:
    """In this context, every process has the full model and can use it without the others.

    The hooks that gather weights on demand are removed meanwhile: in a single process they would wait for the
    other processes, and record a forward pass that those have not made.
    """
    match strategy:
        case "zero3":
            with _unsharded_by_deepspeed(model), _without_hooks(model):
                yield
        case "fsdp":
            with _unsharded_by_fsdp(model), _without_hooks(model):
                yield
        case _:
            yield


def _unsharded_by_deepspeed(model: Any) -> AbstractContextManager[Any]:
    """Gather the weights that DeepSpeed has not gathered already."""
    zero = import_module("deepspeed.runtime.zero.partition_parameters")
    return zero.GatheredParameters([weight for weight in model.parameters() if not _is_available(weight)])


@contextmanager
def _unsharded_by_fsdp(model: Any) -> Generator[None]:
    parts = [part for part in model.modules() if hasattr(part, "unshard")]
    for part in parts:
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()


@contextmanager
def _without_hooks(model: Any) -> Generator[None]:
    hook_tables = [
        hooks for part in model.modules() for hooks in (part._forward_pre_hooks, part._forward_hooks)
    ]
    saved = [dict(hooks) for hooks in hook_tables]
    for hooks in hook_tables:
        hooks.clear()
    try:
        yield
    finally:
        for hooks, before in zip(hook_tables, saved, strict=True):
            hooks.update(before)


def _shard_like(weight: Any, whole: Any) -> Any:
    """Shard a full weight like another weight."""
    from torch.distributed.tensor import distribute_tensor

    moved = whole.to(weight.device)
    return distribute_tensor(moved, weight.device_mesh, weight.placements, src_data_rank=None)


def _is_fsdp(weight: Any) -> bool:
    return hasattr(weight, "full_tensor")


def _is_deepspeed(weight: Any) -> bool:
    return hasattr(weight, "ds_id")


def _is_available(weight: Any) -> bool:
    return weight.ds_status.name == "AVAILABLE"


def _gathered_weight(weight: Any, *, changed: bool = False) -> AbstractContextManager[Any]:
    """In this context, a weight that ZeRO-3 shards is complete. With `changed`, changes by rank 0 persist."""
    if not _is_deepspeed(weight) or (_is_available(weight) and not changed):
        return nullcontext()
    zero = import_module("deepspeed.runtime.zero.partition_parameters")
    return zero.GatheredParameters([weight], modifier_rank=0 if changed else None)
