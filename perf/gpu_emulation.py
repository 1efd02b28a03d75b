"""Emulates the code paths of a GPU for a step that runs without one: attention kernels, autocast's list of
fp32 operations, dropout masks, TRL's fused tiles."""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import torch

from posttrain.compiler.memory.workload import Workload

aten = torch.ops.aten


@contextlib.contextmanager
def emulate_gpu(workload: Workload) -> Iterator[None]:
    """Patches torch, transformers and TRL to take the GPU code path on a CPU without data."""
    import transformers.masking_utils as masks
    import trl.kernels.chunked_logprob as tiles
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as ATTENTION

    functional, power = torch.nn.functional, torch.pow
    normalise = functional.layer_norm

    def widened(tensor: Any) -> Any:
        casts = torch.is_autocast_enabled("cpu") and isinstance(tensor, torch.Tensor)
        return tensor.float() if casts else tensor

    def layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
        return normalise(widened(x), shape, widened(weight), widened(bias), eps)

    def dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return torch.native_dropout(x, p, True)[0] if training and p else x

    def joined(positions: Any) -> Any:
        return torch.zeros_like(positions) if workload.packed else None

    with contextlib.ExitStack() as stack:
        for owner, name, value in (
            (functional, "layer_norm", layer_norm),
            (functional, "dropout", dropout),
            (functional, "scaled_dot_product_attention", _attention),
            (torch, "pow", lambda x, exponent: power(widened(x), exponent)),
            (tiles, "_use_triton", lambda device: False),
            # the fused kernels work in place: they allocate nothing
            (tiles, "_forward_tile", lambda *args, **kwargs: None),
            (tiles, "_backward_tile", lambda *args, **kwargs: None),
            (tiles, "_addmm_fp32", lambda *args: None),
            # fake tensors have no data from which to decide whether a mask is needed
            (masks, "is_tracing", lambda *args: False),
            (masks, "fast_all", lambda mask: not workload.padded),
            (masks, "find_packed_sequence_indices", joined),
        ):
            stack.enter_context(patch.object(owner, name, value))
        stack.enter_context(patch.dict(ATTENTION._global_mapping, {"sdpa": _sdpa}))
        stack.enter_context(warnings.catch_warnings(action="ignore"))
        yield


def _sdpa(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any) -> Any:
    """The function of transformers around SDPA, which repeats shared heads if there is a mask."""
    from transformers.integrations.sdpa_attention import repeat_kv, use_gqa_in_sdpa

    groups = getattr(module, "num_key_value_groups", 1)
    if groups > 1 and not use_gqa_in_sdpa(attention_mask, key, value):
        key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    scale, p = options.get("scaling"), options.get("dropout", 0.0)
    causal = attention_mask is None
    out = _attention(query, key, value, attention_mask, p, causal, scale=scale, enable_gqa=groups > 1)
    return out.transpose(1, 2).contiguous(), None


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """The kernel that SDPA picks on CUDA: flash without a mask, memory-efficient with one, and
    neither for fp32 or unequal numbers of heads."""
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (t.to(torch.bfloat16) for t in (query, key, value))
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(torch.bfloat16)
    with torch.autocast("cpu", enabled=False):
        if query.shape[1] != key.shape[1] and (not enable_gqa or query.dtype == torch.float32):
            return aten._scaled_dot_product_attention_math(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )[0]
        if attn_mask is None:
            return aten._scaled_dot_product_flash_attention(
                query, key, value, dropout_p, is_causal, False, scale=scale
            )[0]
        if attn_mask.dtype == torch.bool:
            open_mask = torch.zeros_like(attn_mask, dtype=query.dtype)
            attn_mask = open_mask.masked_fill_(attn_mask.logical_not(), float("-inf"))
        bias = attn_mask.expand(*query.shape[:3], key.shape[2])
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, bias, True, dropout_p, False, scale=scale
        )[0]
