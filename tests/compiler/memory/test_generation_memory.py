"""Tests the KV cache estimate against the cache of transformers."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from posttrain.compiler.facts.accelerators import find_accelerator
from posttrain.compiler.facts.published_shapes import find_shape
from posttrain.compiler.memory.generation_memory import kv_cache_bytes
from posttrain.compiler.memory.memory_estimate import estimate_memory
from posttrain.compiler.memory.workload import RolloutWorkload, Workload
from posttrain.spec.architectures.shape_from_init import shape_from_init
from posttrain.spec.architectures.transformers_config import transformers_config


@pytest.mark.parametrize(
    ("family", "own"),
    [
        ("llama", {}),
        ("qwen3", {"kv_heads": 2}),
        ("gemma3_text", {"window": 16}),
        ("gpt_neox", {}),
        ("falcon", {"kv_heads": 1}),
    ],
)
def test_the_cache_is_as_large_as_the_one_that_is_filled(family, own):
    shape = shape_from_init(family, layers=6, hidden=64, heads=4, vocab=100, context=256)
    assert shape is not None
    shape = shape._replace(**own)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(**transformers_config(shape)), dtype=torch.bfloat16
    )
    tokens = torch.zeros(2, 100, dtype=torch.long)
    with torch.no_grad():
        filled = model(tokens, use_cache=True).past_key_values
    size = sum(2 * (layer.keys.numel() + layer.values.numel()) for layer in filled.layers)
    # a window of n caches n - 1 tokens: the next token is the n-th
    assert 2 * kv_cache_bytes(shape, 100) == pytest.approx(size, rel=0.06 if shape.window else 0)


def test_generating_needs_no_gradients_but_a_cache():
    model, card = find_shape("Qwen/Qwen2.5-0.5B"), find_accelerator("A100-40")
    assert model is not None
    assert card is not None
    rollout = RolloutWorkload("transformers", 512, 512, 64)
    terms = estimate_memory(Workload(model=model, length=1024, train=False, rollout=rollout), card).terms
    assert {"weights", "cache"} <= {t.name for t in terms}
    assert not {"gradients", "optimizer"} & {t.name for t in terms}
