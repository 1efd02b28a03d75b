"""Has completions written by vLLM where the plan says so: what TRL's trainers are told of it."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from posttrain.runtime.faults import StepFault
from posttrain.spec.plan import Launch


def rollout_engine(launch: Launch) -> dict[str, Any]:
    """The arguments for the engine that writes completions; none for transformers, TRL's own way."""
    if launch.engine != "vllm":
        return {}
    how: Mapping[str, Any] = launch.rollouts
    if find_spec("vllm") is None:
        raise StepFault(
            "the plan has vLLM write the completions, and it is not installed",
            "install posttrain with its extra `cuda`, or write"
            " `placement: {rollouts: {engine: transformers}}`",
        )
    if how.get("mode") == "server":
        return {"use_vllm": True, "vllm_mode": "server"}
    given = {
        "vllm_gpu_memory_utilization": how.get("utilisation"),
        "vllm_tensor_parallel_size": how.get("tensor_parallel"),
        "vllm_enable_sleep_mode": how.get("sleep"),
    }
    return {
        "use_vllm": True,
        "vllm_mode": "colocate",
        **{name: value for name, value in given.items() if value is not None},
    }
