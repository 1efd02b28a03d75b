"""Hands vLLM the weights of a model under an adapter, and leaves the model's own as they were.

TRL adds the adapter to the weights below it, sends them, and takes it off again. What is left differs from
what was there by a rounding, more so in half precision, and the next time by another: after many steps the
adapter stands on weights that no file has, and a run that goes on from a checkpoint is another run. Here
the weights are merged in one layer at a time, and put back from a copy.

Weights in 4 bits TRL quantizes again with the adapter in them, and sends their bytes without the scales that
say what they stand for; and it asks vLLM to quantize by bitsandbytes, which the pinned release does not know
any more. Here vLLM holds whole weights, and is sent those that the trainer computes with: what the 4 bits
stand for, with the adapter on top.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

_PREFIX = "base_model.model."
_MODULES_TO_SAVE = "modules_to_save.default."


def patch_weight_sync(engine: Any) -> None:
    """Have the engine's weights made so, where no process lacks a part of them."""
    if _is_supported(engine):
        engine._iter_named_params = lambda: merged_weights(engine.model)


def disable_vllm_bitsandbytes() -> None:
    """Have TRL start vLLM on the weights as they are stored, however the trainer has loaded them.

    What TRL does there for weights that bitsandbytes holds is the only thing that it asks about it.
    """
    generation: Any = import_module("trl.generation.vllm_generation")
    generation.is_bitsandbytes_available = lambda: False


def _is_supported(engine: Any) -> bool:
    from accelerate.utils import is_peft_model

    state: Any = engine.accelerator.state
    plugin = getattr(state, "deepspeed_plugin", None)
    divided = state.distributed_type == "FSDP" or (plugin is not None and plugin.zero_stage == 3)
    return bool(is_peft_model(engine.model)) and not divided and _has_readable_weights(engine.model)


def _has_readable_weights(model: Any) -> bool:
    return all(weight.is_floating_point() or _is_4bit(weight) for weight in model.parameters())


def _is_4bit(weight: Any) -> bool:
    return hasattr(weight, "quant_state")


def merged_weights(model: Any) -> Iterator[tuple[str, Any]]:
    """The weights as they are with the adapter in them, by the names that they have without one."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, BaseTunerLayer)}
    for name, weight in model.named_parameters():
        if model.prefix in name or "original_module" in name:
            continue  # the adapter's own, and those that others stand for
        owner = layers.get(name.partition(".base_layer")[0]) if ".base_layer." in name else None
        plain = name.removeprefix(_PREFIX).replace(".base_layer", "").replace(_MODULES_TO_SAVE, "")
        yield plain, _synced_weight(owner, weight)


def _synced_weight(owner: Any, weight: Any) -> Any:
    if _is_4bit(weight):
        return _dequantized_weight(owner, weight)
    below = getattr(owner.get_base_layer(), "weight", None) if owner is not None else None
    if owner is None or _is_4bit(below):  # beside one in 4 bits, the adapter changes no other weight
        return weight.data
    return _merged_weight(owner, weight)


def _dequantized_weight(owner: Any, weight: Any) -> Any:
    """What a weight in 4 bits stands for, with the adapter on top. TRL keeps that adapter in bfloat16: its
    product is made in float32, and vLLM rounds the sum to its own precision, once."""
    import torch
    from peft.utils.integrations import dequantize_bnb_weight

    with torch.no_grad():
        whole = dequantize_bnb_weight(weight)
        if owner is None:
            return whole
        for name in owner.active_adapters:
            below, above = owner.lora_A[name].weight.float(), owner.lora_B[name].weight.float()
            whole = whole + above @ below * owner.scaling[name]
        return whole


def _merged_weight(layer: Any, weight: Any) -> Any:
    """A weight of a layer with the adapter in it. A copy: who takes it may keep it for a while."""
    import torch

    with torch.no_grad():
        before = [(one, one.data) for one in layer.get_base_layer().parameters(recurse=False)]
        for one, data in before:
            one.data = data.clone()
        try:
            layer.merge()
            return weight.data.clone()  # which is taken off again in place
        finally:
            layer.unmerge()
            for one, data in before:
                one.data = data
