"""Reads and writes the full weights of a model that may be sharded over processes: one by one, or all of
them for a while.

All processes must ask together: a weight that is divided is brought together by all of them.
"""

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

from posttrain.runtime.distributed import process_group


def gather_weights(model: Any) -> dict[str, Any]:
    """The whole weights in the first process, and none in the others."""
    found: dict[str, Any] = {}
    for name, weight in model.named_parameters():
        with _gathered_weight(weight):
            whole = weight.full_tensor() if _is_fsdp(weight) else weight
            if process_group.is_rank_zero():
                # What is brought together is here for a moment only.
                found[name] = whole.detach().to("cpu", copy=_is_deepspeed(weight)).contiguous()
    return found


def assign_weights(model: Any, weights: Mapping[str, Any]) -> None:
    """Put whole weights, which every process has read, in the place of a model's own."""
    import torch

    with torch.no_grad():
        for name, weight in model.named_parameters():
            with _gathered_weight(weight, changed=True):
                weight.copy_(_shard_like(weight, weights[name]) if _is_fsdp(weight) else weights[name])


def sync_reference_weights(reference: Any, model: Any, share: float) -> None:
    """Move each weight of a reference this far towards the model's, where ZeRO-3 has divided both alike.

    Every process moves its parts, and the copies of small weights that DeepSpeed holds on to. Where weights
    are brought together for it, as TRL does, DeepSpeed loses its way in the next step of a resumed run.
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
    """While in here, every process has the whole model, and each may use it without the others.

    What gathers weights as they are needed is taken off meanwhile: used by one process, it would wait for
    the others, and remember a step that they have not made.
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
    """Those that DeepSpeed has at hand stay there."""
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


def load_checkpoint_weights(trainer: Any, checkpoint: Path, strategy: str) -> None:
    """Put the weights of a checkpoint of its own in the place of those that a trainer has."""
    if strategy == "zero3":  # reads the parts that each process has written
        trainer.model_wrapped.load_checkpoint(
            str(checkpoint), load_module_strict=not hasattr(trainer.model, "peft_config")
        )
    else:
        trainer._load_from_checkpoint(str(checkpoint))


def _shard_like(weight: Any, whole: Any) -> Any:
    """A whole weight, divided as another is."""
    from torch.distributed.tensor import distribute_tensor

    there = whole.to(weight.device)
    return distribute_tensor(there, weight.device_mesh, weight.placements, src_data_rank=None)


def _is_fsdp(weight: Any) -> bool:
    return hasattr(weight, "full_tensor")


def _is_deepspeed(weight: Any) -> bool:
    return hasattr(weight, "ds_id")


def _is_available(weight: Any) -> bool:
    return weight.ds_status.name == "AVAILABLE"


def _gathered_weight(weight: Any, *, changed: bool = False) -> AbstractContextManager[Any]:
    """While in here, a weight that ZeRO-3 divides is whole. What the first has `changed` stays so."""
    if not _is_deepspeed(weight) or (_is_available(weight) and not changed):
        return nullcontext()
    zero = import_module("deepspeed.runtime.zero.partition_parameters")
    return zero.GatheredParameters([weight], modifier_rank=0 if changed else None)
