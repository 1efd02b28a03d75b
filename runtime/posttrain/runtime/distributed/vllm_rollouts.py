"""Rollouts with vLLM: the arguments of TRL's trainers, end tokens, and reproducible sampling.

Inside the trainer's process, vLLM samples from the random state of that process, and resets it at its start
to the rank of the process, whatever the recipe's seed is. Here each generation has its own random state,
derived from the seed, the step and the processes that share an engine, and the trainer's state is restored
afterwards. So a resumed run samples the same completions as an uninterrupted one.
"""

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from posttrain.runtime.distributed.vllm_weight_sync import disable_vllm_bitsandbytes, patch_weight_sync
from posttrain.runtime.errors import StepError
from posttrain.spec.keys import digest
from posttrain.spec.plan import Launch

# Turns off vLLM's usage statistics.
NO_USAGE_STATS = {"VLLM_NO_USAGE_STATS": "1"}
_LENGTH_MULTIPLE = 256  # the maximum length is rounded up to a multiple of this many tokens
_AUTO = -1  # vLLM's value for the model's context length, or less if memory does not suffice


def vllm_engine_arguments(launch: Launch) -> dict[str, Any]:
    """Return the trainer arguments for the vLLM engine; none for the engine transformers."""
    if launch.engine != "vllm":
        return {}
    rollouts: Mapping[str, Any] = launch.rollouts
    if find_spec("vllm") is None:
        raise StepError(
            "the plan generates completions with vLLM, which is not installed",
            "install posttrain with its extra `cuda`, or set `placement: {rollouts: {engine: transformers}}`",
        )
    os.environ |= NO_USAGE_STATS
    if rollouts.get("mode") == "server":
        return {"use_vllm": True, "vllm_mode": "server"}
    disable_vllm_bitsandbytes()
    arguments = {
        "vllm_gpu_memory_utilization": rollouts.get("gpu_memory_utilization"),
        "vllm_tensor_parallel_size": rollouts.get("tensor_parallel_size"),
        "vllm_enable_sleep_mode": rollouts.get("enable_sleep_mode"),
    }
    return {
        "use_vllm": True,
        "vllm_mode": "colocate",
        **{name: value for name, value in arguments.items() if value is not None},
    }


def max_model_length(launch: Launch, prompt: int, completion: int, context: int, *, grows: bool) -> int:
    """Return the maximum sequence length for vLLM (`max_model_len`), or vLLM's value for `auto`.

    By default vLLM reserves memory for the model's context length, and does not start if its share of the GPU
    is too small for that, even if it suffices for the sequences of this stage. Conversations that grow in an
    environment may need the whole context.
    """
    length = prompt + 1 + completion  # one extra token for a tokenizer that adds a start token
    served = launch.rollouts.get("mode") == "server"  # the server rejects prompts without room to complete
    if (length if served else prompt + 1) > context:
        room = f" and a completion of {completion}" if served else ""
        raise StepError(
            f"the longest prompt ({prompt} tokens{room}) does not fit into the model's context of {context}"
            " tokens, so vLLM would reject it",
            "filter out long prompts in the dataset's steps, lower max_completion_length, or use a model with"
            " a longer context",
        )
    return _AUTO if grows else min(context, -(-length // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE)


def vllm_trainer_arguments(launch: Launch, own: Mapping[str, Any], room: int) -> dict[str, Any]:
    """Return the trainer arguments for generation with vLLM; `own` are the arguments of the method."""
    if launch.engine != "vllm":
        return {}
    arguments: dict[str, Any] = {}
    if launch.rollouts.get("mode") != "server":  # the server gets it on its command line
        arguments["vllm_max_model_length"] = room
    if own.get("loss_type") == "vespo":  # the only importance sampling mode that this loss supports
        arguments["vllm_importance_sampling_mode"] = "token_truncate"
    return arguments


def save_tokenizer_beside_weights(model: Any, tokenizer: Any, scratch: Path) -> None:
    """Save the tokenizer in the folder of weights that the stage has merged: vLLM loads it from there."""
    folder = Path(model.name_or_path)
    if folder.is_relative_to(scratch):
        tokenizer.save_pretrained(folder)


def patch_vllm_generation(trainer: Any) -> None:
    """Patch the trainer's vLLM engine: end tokens as in the trainer, sampling by seed and step only."""
    engine = getattr(trainer, "vllm_generation", None)
    if engine is None:
        return
    from accelerate.utils import set_seed

    if engine.generation_kwargs.get("seed") is not None:
        raise StepError(
            "`generation_kwargs` sets a seed, which would make all completions of a prompt identical",
            "remove it; the recipe's `seed` determines the sampling",
        )
    # Restore the trainer's random state, which vLLM has reset at its start.
    set_seed(trainer.args.seed + trainer.accelerator.process_index)
    engine.generation_kwargs = {
        # vLLM has the end tokens of the folder that it was started from; the stage may use others.
        "stop_token_ids": list(trainer.eos_token_ids),
        **engine.generation_kwargs,
    }
    engine.generate = _seeded_generate(trainer, engine)
    patch_weight_sync(engine)


def _seeded_generate(trainer: Any, engine: Any) -> Callable[..., Any]:
    """Wrap the engine's `generate`: set its random state, and pad uneven shares of prompts."""
    engine_generate, served = engine.generate, engine.mode == "server"
    parallel = 1 if served else engine.tensor_parallel_size
    group = trainer.accelerator.process_index // parallel
    last, turn = -1, 0

    def generate(
        prompts: list[list[int]], images: Any, num_generations: int, profiler: Any = None
    ) -> tuple[Any, ...]:
        nonlocal last, turn
        last, turn = trainer.state.global_step, turn + 1 if last == trainer.state.global_step else 0
        seed = int(digest([trainer.args.seed, last, turn, group])[:7], 16)
        padded = _pad_prompts(prompts) if served or parallel > 1 else prompts
        with nullcontext() if served else _seeded_random_state(seed):  # a server has its own random state
            outputs = engine_generate(padded, images, num_generations, profiler)
        return tuple(one if one is None else one[: len(prompts)] for one in outputs)

    return generate


def _pad_prompts(prompts: list[list[int]]) -> list[list[int]]:
    """Pad to the largest number of prompts of any process. TRL assumes equal shares when processes share an
    engine, but in an environment the shares differ."""
    from accelerate.utils import gather_object

    most = max(gather_object([len(prompts)]))
    return prompts + prompts[:1] * (most - len(prompts))


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
