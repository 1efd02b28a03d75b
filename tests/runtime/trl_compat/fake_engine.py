"""A vLLM engine without vLLM, and a trainer that has it."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from posttrain.runtime.training.rollout_patches import patch_vllm_generation


class FakeEngine:
    """Samples from the random state of the process, as vLLM does."""

    def __init__(self, mode: str = "colocate", parallel: int = 1, **generation_kwargs: Any) -> None:
        self.mode, self.tensor_parallel_size, self.generation_kwargs = mode, parallel, generation_kwargs
        self.model: Any = torch.nn.Linear(1, 1)
        self.accelerator = SimpleNamespace(state=SimpleNamespace(distributed_type="NO"))

    def generate(self, prompts: Any, images: Any, num_generations: int, profiler: Any) -> tuple[Any, ...]:
        drawn = [[*np.random.randint(1000, size=2).tolist(), int(torch.randint(1000, ()))] for _ in prompts]
        return prompts, drawn, None, None


def fake_trainer(engine: FakeEngine, seed: int = 3, step: int = 0, process: int = 0) -> Any:
    made = SimpleNamespace(
        vllm_generation=engine,
        args=SimpleNamespace(seed=seed),
        eos_token_ids=[1, 7],
        state=SimpleNamespace(global_step=step),
        accelerator=SimpleNamespace(process_index=process),
    )
    patch_vllm_generation(made)
    return made


def draws(made: Any, count: int = 2) -> Any:
    return made.vllm_generation.generate(prompts=[[5]] * count, images=None, num_generations=1)[1]
