"""The engine that generates the completions of a training stage, and the settings of vLLM."""

from typing import Any

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.placement.placement_search import EvaluatedPlacement, PlacementConstraints
from posttrain.compiler.placement.target import Target
from posttrain.spec.hardware import Placement


def resolve_rollout_engine(trained_model: TrainedModel, requested: Placement, target: Target) -> str:
    return trained_model.choose_rollout_engine(requested.rollouts.engine, bool(target.gpus))


def rollout_engine_error(trained_model: TrainedModel, requested: Placement, target: Target) -> str:
    """Return why the rollout settings of the recipe are invalid, or an empty string."""
    rollouts, foot = requested.rollouts, trained_model.method.footprint
    if not foot.completions:
        return ""
    if rollouts.engine not in ("auto", *foot.engines):
        able = ", ".join(foot.engines)
        return (
            f"`{trained_model.method.name}` does not support `engine: {rollouts.engine}`: set `engine:"
            f" {able}`, or remove the key"
        )
    engine = resolve_rollout_engine(trained_model, requested, target)
    if rollouts.mode == "server" and engine != "vllm":
        return f"`mode: server` needs vLLM, but the engine is {engine}: remove `mode`"
    if rollouts.gpus is not None and rollouts.mode != "server":
        return "`gpus` needs `mode: server`: without it vLLM shares the GPUs of the training"
    if engine == "vllm" and trained_model.is_int8:
        return "vLLM does not support 8-bit weights from a training: set `engine: transformers`"
    return ""


def chosen_rollout_settings(chosen: EvaluatedPlacement, constraints: PlacementConstraints) -> dict[str, Any]:
    """Return the chosen settings of vLLM."""
    rollout = chosen.choice.rollout
    if rollout is None or rollout.engine != "vllm":
        return {}
    return _rollout_settings(
        constraints, rollout.gpu_memory_utilization, rollout.tensor_parallel_size, rollout.enable_sleep_mode
    )


def declared_rollout_settings(constraints: PlacementConstraints) -> dict[str, Any]:
    """Return the settings of vLLM in the recipe, for a stage without an estimate."""
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
        "nodes": constraints.server_nodes,
        "gpu_memory_utilization": gpu_memory_utilization,
        "tensor_parallel_size": tensor_parallel_size,
        "enable_sleep_mode": enable_sleep_mode,
    }
