"""What writes the completions that a training stage learns from, and how vLLM is set up for it."""

from typing import Any

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.placement.placement_search import EvaluatedPlacement, PlacementConstraints
from posttrain.compiler.placement.target import Target
from posttrain.spec.hardware import Placement


def resolve_rollout_engine(trained_model: TrainedModel, requested: Placement, target: Target) -> str:
    return trained_model.choose_rollout_engine(requested.rollouts.engine, bool(target.gpus))


def rollout_engine_error(trained_model: TrainedModel, requested: Placement, target: Target) -> str:
    """Why completions cannot be written as the recipe says, in a sentence; empty where they can."""
    rollouts, foot = requested.rollouts, trained_model.method.footprint
    if not foot.completions:
        return ""
    if rollouts.engine not in ("auto", *foot.engines):
        able = ", ".join(foot.engines)
        return (
            f"`{trained_model.method.name}` cannot write by {rollouts.engine}; it can by {able}: write"
            f" `engine: {able}`, or leave it out"
        )
    engine = resolve_rollout_engine(trained_model, requested, target)
    if rollouts.mode == "server" and engine != "vllm":
        return f"`mode: server` is a server of vLLM's, and {engine} writes the completions: take `mode` out"
    if rollouts.gpus is not None and rollouts.mode != "server":
        return "`gpus` are vLLM's own with `mode: server`; without it vLLM shares those of the training"
    if engine == "vllm" and trained_model.is_int8:
        return "vLLM takes no weights in 8 bits from a training: write `engine: transformers`"
    return ""


def chosen_rollout_settings(chosen: EvaluatedPlacement, constraints: PlacementConstraints) -> dict[str, Any]:
    """How vLLM is set up, as it was chosen."""
    rollout = chosen.choice.rollout
    if rollout is None or rollout.engine != "vllm":
        return {}
    return _rollout_settings(
        constraints, rollout.gpu_memory_utilization, rollout.tensor_parallel_size, rollout.enable_sleep_mode
    )


def declared_rollout_settings(constraints: PlacementConstraints) -> dict[str, Any]:
    """How vLLM is set up where there is nothing to choose by: as the recipe says."""
    if constraints.engine != "vllm":
        return {}
    return _rollout_settings(
        constraints,
        constraints.gpu_memory_utilization,
        constraints.tensor_parallel_size,
        constraints.enable_sleep_mode,
    )


def _rollout_settings(
    constraints: PlacementConstraints,
    gpu_memory_utilization: float | None,
    tensor_parallel_size: int | None,
    enable_sleep_mode: bool | None,
) -> dict[str, Any]:
    return {
        "mode": "server" if constraints.server_gpus else "colocate",
        "gpus": constraints.server_gpus,
        "gpu_memory_utilization": gpu_memory_utilization,
        "tensor_parallel_size": tensor_parallel_size,
        "enable_sleep_mode": enable_sleep_mode,
    }
