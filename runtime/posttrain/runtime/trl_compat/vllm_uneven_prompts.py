"""Pads the prompts of processes that share a vLLM engine to equal shares.

TRL gathers the prompts of all these processes, and takes the share of a process by the number of its own
prompts: if the numbers differ, a process gets the completions of another one. In an environment, the
processes have different numbers of unfinished episodes.

    trl/generation/vllm_generation.py:652 `VLLMGeneration.generate`: `process_index * len(prompts)`
    trl/generation/vllm_generation.py:739 `VLLMGeneration.generate`: `local_rank_in_group * orig_size`
"""

from typing import Any


def pad_uneven_prompts(engine: Any) -> None:
    """Wrap the engine's `generate` to pad the prompts, if processes share the engine."""
    if engine.mode != "server" and engine.tensor_parallel_size == 1:
        return
    engine_generate = engine.generate

    def generate(
        prompts: list[list[int]], images: Any, num_generations: int, profiler: Any = None
    ) -> tuple[Any, ...]:
        outputs = engine_generate(_pad_prompts(prompts), images, num_generations, profiler)
        return tuple(one if one is None else one[: len(prompts)] for one in outputs)

    engine.generate = generate


def _pad_prompts(prompts: list[list[int]]) -> list[list[int]]:
    """Pad to the largest number of prompts of any process."""
    from accelerate.utils import gather_object

    most = max(gather_object([len(prompts)]))
    return prompts + prompts[:1] * (most - len(prompts))
