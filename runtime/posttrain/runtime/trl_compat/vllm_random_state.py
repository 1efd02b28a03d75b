"""Gives each generation with vLLM its own random state, derived from the seed and the step.

Inside the trainer's process, vLLM samples from the random state of that process, and resets it at its start
to the rank of the process, whatever the recipe's seed is. Here each generation has its own random state,
derived from the seed, the step and the processes that share an engine, and the trainer's state is restored
afterwards. So a resumed run samples the same completions as an uninterrupted one.

    trl/generation/vllm_generation.py:357 `VLLMGeneration._init_vllm`: `seed=accelerator.process_index`
"""

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.spec.keys import digest


def seed_generations(trainer: Any, engine: Any) -> None:
    """Restore the trainer's random state, and let the engine sample by seed and step only."""
    from accelerate.utils import set_seed

    if engine.generation_kwargs.get("seed") is not None:
        raise StepError(
            "`generation_kwargs` sets a seed, which would make all completions of a prompt identical",
            "remove it; the recipe's `seed` determines the sampling",
        )
    # Restore the trainer's random state, which vLLM has reset at its start.
    set_seed(trainer.args.seed + trainer.accelerator.process_index)
    engine_generate, served = engine.generate, engine.mode == "server"
    group = trainer.accelerator.process_index // (1 if served else engine.tensor_parallel_size)
    last, turn = -1, 0

    def generate(
        prompts: list[list[int]], images: Any, num_generations: int, profiler: Any = None
    ) -> tuple[Any, ...]:
        nonlocal last, turn
        last, turn = trainer.state.global_step, turn + 1 if last == trainer.state.global_step else 0
        seed = int(digest([trainer.args.seed, last, turn, group])[:7], 16)
        with nullcontext() if served else _seeded_random_state(seed):  # a server has its own random state
            return engine_generate(prompts, images, num_generations, profiler)

    engine.generate = generate


@contextmanager
def _seeded_random_state(seed: int) -> Generator[None]:
    """Seed all random generators of this process, and restore their states on exit."""
    import random

    import numpy as np
    import torch
    from accelerate.utils import set_seed

    python, arrays = random.getstate(), np.random.get_state()
    cards = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=cards):
        set_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(arrays)
