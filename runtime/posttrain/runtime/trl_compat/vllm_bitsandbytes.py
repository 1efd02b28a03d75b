"""Starts vLLM on the stored weights, even if the trainer has loaded them quantized.

For a model with 4-bit layers, TRL starts vLLM with bitsandbytes quantization, which the pinned release cannot
update during training: see `vllm_weight_sync.py`.

    trl/generation/vllm_generation.py:341 `VLLMGeneration._init_vllm`: `quantization = "bitsandbytes"`
"""

from importlib import import_module
from typing import Any


def disable_vllm_bitsandbytes() -> None:
    """Make TRL start vLLM without quantization.

    TRL's module uses this function only to turn on bitsandbytes quantization in vLLM.
    """
    generation: Any = import_module("trl.generation.vllm_generation")
    generation.is_bitsandbytes_available = lambda: False
