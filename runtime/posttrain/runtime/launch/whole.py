"""Reads and writes the weights of a model that its processes may have divided among them, one by one.

All processes must ask together: a weight that is divided is brought together by all of them.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

from posttrain.runtime.launch import group


def weights_of(model: Any) -> dict[str, Any]:
    """The whole weights in the first process, and none in the others."""
    found: dict[str, Any] = {}
    for name, weight in model.named_parameters():
        with _brought_together(weight):
            whole = weight.full_tensor() if _of_fsdp(weight) else weight
            if group.first():
                # What is brought together is here for a moment only.
                found[name] = whole.detach().to("cpu", copy=_of_deepspeed(weight)).contiguous()
    return found


def give_weights(model: Any, weights: Mapping[str, Any]) -> None:
    """Put whole weights, which every process has read, in the place of a model's own."""
    import torch

    with torch.no_grad():
        for name, weight in model.named_parameters():
            with _brought_together(weight, changed=True):
                weight.copy_(_part(weight, weights[name]) if _of_fsdp(weight) else weights[name])


def pull(reference: Any, model: Any, share: float) -> None:
    """Move each weight of a reference this far towards the model's, where ZeRO-3 has divided both alike.

    Every process moves its parts, and the copies of small weights that DeepSpeed holds on to. Where weights
    are brought together for it, as TRL does, DeepSpeed loses its way in the next step of a resumed run.
    """
    import torch

    with torch.no_grad():
        for ours, theirs in zip(reference.parameters(), model.parameters(), strict=True):
            ours.ds_tensor.data.mul_(1.0 - share).add_(theirs.ds_tensor.data, alpha=share)
            if _is_here(ours):
                with _brought_together(theirs):
                    ours.data.mul_(1.0 - share).add_(theirs.data, alpha=share)


def _part(weight: Any, whole: Any) -> Any:
    """A whole weight, divided as another is."""
    from torch.distributed.tensor import distribute_tensor

    there = whole.to(weight.device)
    return distribute_tensor(there, weight.device_mesh, weight.placements, src_data_rank=None)


def _of_fsdp(weight: Any) -> bool:
    return hasattr(weight, "full_tensor")


def _of_deepspeed(weight: Any) -> bool:
    return hasattr(weight, "ds_id")


def _is_here(weight: Any) -> bool:
    return weight.ds_status.name == "AVAILABLE"


def _brought_together(weight: Any, *, changed: bool = False) -> AbstractContextManager[Any]:
    """While in here, a weight that ZeRO-3 divides is whole. What the first has `changed` stays so."""
    if not _of_deepspeed(weight) or (_is_here(weight) and not changed):
        return nullcontext()
    zero = import_module("deepspeed.runtime.zero.partition_parameters")
    return zero.GatheredParameters([weight], modifier_rank=0 if changed else None)
