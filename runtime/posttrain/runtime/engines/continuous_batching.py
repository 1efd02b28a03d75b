"""Continuous batching with transformers: a completion that ends leaves its place to the next at once."""

from collections.abc import Mapping
from typing import Any

from posttrain.runtime.engines.completion_decoding import generation_kwargs
from posttrain.runtime.errors import StepError

_BLOCK_SIZE = 32  # tokens
_MIN_BATCH_TOKENS = 512


def generate_continuous(
    model: Any, tokenizer: Any, texts: list[str], sampling: Mapping[str, Any], seed: int
) -> list[list[int]]:
    """The tokens of every completion, the samples of a text side by side."""
    import torch
    from transformers import ContinuousBatchingConfig, GenerationConfig

    prompts = tokenizer(texts, add_special_tokens=False)["input_ids"]
    samples = sampling["n"]
    ends = model.generation_config.eos_token_id
    given = GenerationConfig(
        **{**generation_kwargs(sampling), "num_return_sequences": 1},
        eos_token_id=tokenizer.eos_token_id if ends is None else ends,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(seed)
    longest = max(map(len, prompts)) + sampling["max_tokens"]
    sizes = {} if torch.cuda.is_available() else _cache_sizes(longest, sampling["batch_size"])
    found = model.generate_batch(
        [prompt for prompt in prompts for _ in range(samples)],
        generation_config=given,
        continuous_batching_config=ContinuousBatchingConfig(seed=seed % 2**31, **sizes),
        progress_bar=False,
        warmup=torch.cuda.is_available(),
    )
    failed = [one.error for one in found.values() if one.error is not None]
    if failed or len(found) != len(prompts) * samples:
        message = f"continuous batching lost completions: {failed[0] if failed else 'no reason is given'}"
        raise StepError(message, "write `continuous_batching: false`")
    return [list(one.generated_tokens) for one in found.values()]


def _cache_sizes(longest: int, at_once: int) -> dict[str, Any]:
    """The cache for so many sequences. Without a GPU, transformers would take what it finds of memory."""
    blocks = (longest // _BLOCK_SIZE + 2) * at_once
    return {
        "block_size": _BLOCK_SIZE,
        "num_blocks": blocks,
        "max_batch_tokens": max(longest, _MIN_BATCH_TOKENS),
        "max_requests_per_batch": at_once,
        "use_async_batching": False,
        "use_cuda_graph": False,
    }
