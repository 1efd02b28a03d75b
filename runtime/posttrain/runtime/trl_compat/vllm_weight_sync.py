"""Sends vLLM the merged weights of a model with an adapter, without changing the model's own weights.

TRL merges the adapter into the base weights, sends them, and unmerges it. Each cycle leaves a rounding error
in the base weights, a larger one in half precision. After many steps, the base weights differ from those of
every file, and a run that resumes from a checkpoint gives other results. Here one layer at a time is merged,
and its weights are restored from a copy.

For 4-bit weights, TRL quantizes the merged weights again and sends their bytes without the quantization
state. Here vLLM holds unquantized weights (`vllm_bitsandbytes.py`), and receives those that the trainer
computes with: the dequantized weights plus the adapter.

    trl/generation/vllm_generation.py:448 `VLLMGeneration._iter_named_params`: `model.merge_adapter()`
    trl/generation/vllm_generation.py:469 `VLLMGeneration._iter_named_params`: `model.unmerge_adapter()`
"""

from collections.abc import Iterator
from typing import Any

_PREFIX = "base_model.model."
_MODULES_TO_SAVE = "modules_to_save.default."
# Around the embeddings of which the adapter trains single rows, and of these rows.
_TOKEN_ADAPTER, _TOKEN_ROWS = ".token_adapter", "trainable_tokens_delta"


def patch_weight_sync(engine: Any) -> None:
    """Replace the engine's weight iteration, unless the weights are sharded or in an unsupported dtype."""
    if _is_supported(engine):
        engine._iter_named_params = lambda: merged_weights(engine.model)


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
    """Yield the weights with the adapter merged, under the names of the model without an adapter."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, BaseTunerLayer)}
    for name, weight in model.named_parameters():
        if any(part in name for part in (model.prefix, "original_module", _TOKEN_ROWS)):
            continue  # weights of the adapter, and originals that modules_to_save replaces
        owner = layers.get(name.partition(".base_layer")[0]) if ".base_layer." in name else None
        plain = (
            name.removeprefix(_PREFIX)
            .replace(".base_layer", "")
            .replace(_MODULES_TO_SAVE, "")
            .replace(_TOKEN_ADAPTER, "")
        )
        yield plain, _synced_weight(owner, weight)


def _synced_weight(owner: Any, weight: Any) -> Any:
    if _is_4bit(weight):
        return _dequantized_weight(owner, weight)
    below = getattr(owner.get_base_layer(), "weight", None) if owner is not None else None
    if owner is None or _is_4bit(below):  # an adapter on a 4-bit weight changes no other weight of the layer
        return weight.data
    return _merged_weight(owner, weight)


def _dequantized_weight(owner: Any, weight: Any) -> Any:
    """Return a dequantized 4-bit weight plus the adapter.

    TRL holds that adapter in bfloat16, so the product is computed in float32; vLLM rounds the sum only once.
    """
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
    """Return a copy of a layer's weight with the adapter merged."""
    import torch

    with torch.no_grad():
        before = [(one, one.data) for one in layer.get_base_layer().parameters(recurse=False)]
        for one, data in before:
            one.data = data.clone()
        try:
            layer.merge()
            return weight.data.clone()  # a copy, because unmerge() changes the weight in place
        finally:
            layer.unmerge()
            for one, data in before:
                one.data = data
