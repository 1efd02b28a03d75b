"""Generation of completions by vLLM, where the plan has it: the arguments of TRL's trainers, where a text
ends, and what is drawn.

In the trainer's process vLLM draws from the random state of that process, and sets it when it starts: to the
number of the process, whatever the recipe's seed. Here each generation begins from a state of its own, made
of the seed, the step and the processes that share an engine, and leaves the trainer's as it was. So a
run that was killed draws what the undisturbed one drew.
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

# vLLM reports usage statistics, unless this is set.
NO_USAGE_STATS = {"VLLM_NO_USAGE_STATS": "1"}
_LENGTH_MULTIPLE = 256  # tokens to which the longest text is rounded up
_AUTO = -1  # what vLLM takes for: the model's own context, or what the memory allows


def vllm_engine_arguments(launch: Launch) -> dict[str, Any]:
    """The arguments for the engine that writes completions; none for transformers, TRL's own way."""
    if launch.engine != "vllm":
        return {}
    rollouts: Mapping[str, Any] = launch.rollouts
    if find_spec("vllm") is None:
        raise StepError(
            "the plan has vLLM write the completions, and it is not installed",
            "install posttrain with its extra `cuda`, or write"
            " `placement: {rollouts: {engine: transformers}}`",
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
    """The longest text that vLLM is to have room for.

    Left to itself it takes the model's context, and does not start on a share of a card that is enough for
    the texts there are but not for one as long as that. Prompts that grow in an environment may need it all.
    """
    length = prompt + 1 + completion  # a text may begin with a token of its own
    served = launch.rollouts.get("mode") == "server"  # which also refuses what might not fit
    if (length if served else prompt + 1) > context:
        room = f" with {completion} tokens after it" if served else ""
        raise StepError(
            f"vLLM takes no prompt that does not fit into the model's context of {context}{room}; the longest"
            f" has {prompt} tokens",
            "filter long prompts in the dataset's steps, lower max_completion_length, or take a model with a"
            " longer context",
        )
    return _AUTO if grows else min(context, -(-length // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE)


def vllm_trainer_arguments(launch: Launch, own: Mapping[str, Any], room: int) -> dict[str, Any]:
    """The further arguments of a method's trainer where vLLM generates; `own` are the method's."""
    if launch.engine != "vllm":
        return {}
    arguments: dict[str, Any] = {}
    if launch.rollouts.get("mode") != "server":  # a server has its own argument
        arguments["vllm_max_model_length"] = room
    if own.get("loss_type") == "vespo":  # which takes no other way to weigh what vLLM drew
        arguments["vllm_importance_sampling_mode"] = "token_truncate"
    return arguments


def save_tokenizer_beside_weights(model: Any, tokenizer: Any, scratch: Path) -> None:
    """vLLM reads a tokenizer from the folder of the weights, and where the stage has merged them there is
    none."""
    folder = Path(model.name_or_path)
    if folder.is_relative_to(scratch):
        tokenizer.save_pretrained(folder)


def patch_vllm_generation(trainer: Any) -> None:
    """Have vLLM end a text where its trainer does, and draw by the seed and the step alone."""
    engine = getattr(trainer, "vllm_generation", None)
    if engine is None:
        return
    from accelerate.utils import set_seed

    if engine.generation_kwargs.get("seed") is not None:
        raise StepError(
            "`generation_kwargs` gives a seed: all completions of a prompt would be drawn by it, and be the"
            " same",
            "take it out; the recipe's `seed` decides what is drawn",
        )
    # As the trainer has done, before vLLM set another.
    set_seed(trainer.args.seed + trainer.accelerator.process_index)
    engine.generation_kwargs = {
        # vLLM knows those of the folder that it was started from; a stage may have come to others since.
        "stop_token_ids": list(trainer.eos_token_ids),
        **engine.generation_kwargs,
    }
    engine.generate = _seeded_generate(trainer, engine)
    patch_weight_sync(engine)


def _seeded_generate(trainer: Any, engine: Any) -> Callable[..., Any]:
    """The engine's `generate`, for which the random state is set and which takes uneven shares."""
    write, served = engine.generate, engine.mode == "server"
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
        with nullcontext() if served else _seeded_random_state(seed):  # a server has a state of its own
            found = write(padded, images, num_generations, profiler)
        return tuple(one if one is None else one[: len(prompts)] for one in found)

    return generate


def _pad_prompts(prompts: list[list[int]]) -> list[list[int]]:
    """As many prompts as the process with the most has: where an engine is shared, TRL takes the shares for
    equal, and in an environment they are not."""
    from accelerate.utils import gather_object

    most = max(gather_object([len(prompts)]))
    return prompts + prompts[:1] * (most - len(prompts))


@contextmanager
def _seeded_random_state(seed: int) -> Generator[None]:
    """The random state that this seed gives, for all that is in this process; then what it was."""
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
