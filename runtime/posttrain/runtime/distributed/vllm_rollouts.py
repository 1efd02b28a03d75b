"""Rollouts with vLLM: the arguments of TRL's trainers. `training/rollout_patches.py` patches their engine."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from posttrain.runtime.errors import StepError
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


def max_model_length(
    launch: Launch, prompt: int, completion: int, context: int, *, grows: bool, evaluated: int = 0
) -> int:
    """Return the maximum sequence length for vLLM (`max_model_len`), or vLLM's value for `auto`.

    `evaluated` is the length of the longest sequence of an in-loop evaluation.

    By default vLLM reserves memory for the model's context length, and does not start if its share of the GPU
    is too small for that, even if it suffices for the sequences of this stage. Conversations that grow in an
    environment may need the whole context.
    """
    length = prompt + completion
    served = launch.rollouts.get("mode") == "server"  # the server rejects prompts without room to complete
    if (length if served else prompt + 1) > context:
        room = f" and a completion of {completion}" if served else ""
        raise StepError(
            f"the longest prompt ({prompt} tokens{room}) does not fit into the model's context of {context}"
            " tokens, so vLLM would reject it",
            "filter out long prompts in the dataset's steps, lower max_completion_length, or use a model with"
            " a longer context",
        )
    longest = max(length, evaluated)
    return _AUTO if grows else min(context, -(-longest // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE)


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
