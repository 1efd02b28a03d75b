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
        raise StepFault(
            "vLLM on GPUs of its own cannot be started by a stage yet",
            "write `placement: {rollouts: {mode: colocate}}`",
        )
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


# Arguments of TRL's own that need a package, and the extra of ours that brings it.
_NEEDED: Mapping[str, tuple[str, str]] = {"use_liger_kernel": ("liger_kernel", "Liger")}


def check_given(trl: Mapping[str, Any]) -> None:
    """Say what the arguments under `trl` need and is missing, before anything is loaded by them."""
    for name, (module, shown) in _NEEDED.items():
        if trl.get(name) and find_spec(module) is None:
            raise StepFault(
                f"`trl: {{{name}: true}}` needs {shown}, which is not installed",
                "install posttrain with its extra `cuda`, or take the argument out",
            )
