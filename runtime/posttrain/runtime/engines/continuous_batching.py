"""Continuous batching with transformers: when a sequence ends, the next one takes its slot immediately."""

from typing import Any

from posttrain.runtime.engines.completion_decoding import generation_kwargs
from posttrain.runtime.errors import StepError
from posttrain.spec.step_params.generation_params import SamplingOptions

_BLOCK_SIZE = 32  # tokens
_MIN_BATCH_TOKENS = 512


def generate_continuous(
    model: Any, tokenizer: Any, prompts: list[list[int]], sampling: SamplingOptions, seed: int
) -> list[list[int]]:
    """The tokens of every completion. The samples of a prompt are consecutive."""
    import torch
    from transformers import ContinuousBatchingConfig, GenerationConfig

    if not model._supports_attention_backend:
        # transformers does not check it: the rows would be one sequence, without an error.
        raise StepError(
            f"the attention of `{model.config.model_type}` models does not support continuous batching",
            "set `continuous_batching: false`",
        )
    samples = sampling.n
    eos_token_id = model.generation_config.eos_token_id
    config = GenerationConfig(
        **{**generation_kwargs(sampling), "num_return_sequences": 1},
        eos_token_id=tokenizer.eos_token_id if eos_token_id is None else eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(seed)
    longest = max(map(len, prompts)) + sampling.max_tokens
    sizes = {} if torch.cuda.is_available() else _cache_sizes(longest, sampling.batch_size)
    outputs = model.generate_batch(
        [prompt for prompt in prompts for _ in range(samples)],
        generation_config=config,
        continuous_batching_config=ContinuousBatchingConfig(seed=seed % 2**31, **sizes),
        progress_bar=False,
        warmup=torch.cuda.is_available(),
    )
    errors = [output.error for output in outputs.values() if output.error is not None]
    if errors or len(outputs) != len(prompts) * samples:
        message = f"continuous batching lost completions: {errors[0] if errors else 'unknown error'}"
        raise StepError(message, "set `continuous_batching: false`")
    return [list(output.generated_tokens) for output in outputs.values()]


def _cache_sizes(longest: int, max_sequences: int) -> dict[str, Any]:
    """The KV cache size for a number of sequences. On a CPU, transformers would use all free memory."""
    blocks = (longest // _BLOCK_SIZE + 2) * max_sequences
    return {
        "block_size": _BLOCK_SIZE,
        "num_blocks": blocks,
        "max_batch_tokens": max(longest, _MIN_BATCH_TOKENS),
        "max_requests_per_batch": max_sequences,
        "use_async_batching": False,
        "use_cuda_graph": False,
    }
