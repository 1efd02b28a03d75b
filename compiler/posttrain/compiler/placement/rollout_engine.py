"""What writes the completions that a training stage learns from, and how vLLM is set up for it."""

from typing import Any

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.placement.placement_search import EvaluatedPlacement, PlacementConstraints
from posttrain.compiler.placement.target import Target
from posttrain.spec.hardware import Placement


def resolve_rollout_engine(subject: TrainedModel, wanted: Placement, target: Target) -> str:
    return subject.choose_rollout_engine(wanted.rollouts.engine, bool(target.gpus))


def rollout_engine_error(subject: TrainedModel, wanted: Placement, target: Target) -> str:
    """Why completions cannot be written as the recipe says, in a sentence; empty where they can."""
    rollouts, foot = wanted.rollouts, subject.method.footprint
    if not foot.completions:
        return ""
    if rollouts.engine not in ("auto", *foot.engines):
        able = ", ".join(foot.engines)
        return (
            f"`{subject.method.name}` cannot write by {rollouts.engine}; it can by {able}: write"
            f" `engine: {able}`, or leave it out"
        )
    engine = resolve_rollout_engine(subject, wanted, target)
    if rollouts.mode == "server" and engine != "vllm":
        return f"`mode: server` is a server of vLLM's, and {engine} writes the completions: take `mode` out"
    if rollouts.gpus is not None and rollouts.mode != "server":
        return "`gpus` are vLLM's own with `mode: server`; without it vLLM shares those of the training"
    if engine == "vllm" and subject.is_int8:
        return "vLLM takes no weights in 8 bits from a training: write `engine: transformers`"
    return ""


def chosen_rollout_settings(chosen: EvaluatedPlacement, given: PlacementConstraints) -> dict[str, Any]:
    """How vLLM is set up, as it was chosen."""
    rollout = chosen.choice.rollout
    if rollout is None or rollout.engine != "vllm":
        return {}
    return _rollout_settings(given, rollout.utilisation, rollout.tensor_parallel_size, rollout.sleeps)


def declared_rollout_settings(given: PlacementConstraints) -> dict[str, Any]:
    """How vLLM is set up where there is nothing to choose by: as the recipe says."""
    if given.engine != "vllm":
        return {}
    return _rollout_settings(
        given, given.gpu_memory_utilization, given.tensor_parallel_size, given.enable_sleep_mode
    )


def _rollout_settings(
    given: PlacementConstraints, utilisation: float | None, tensor_parallel: int | None, sleep: bool | None
) -> dict[str, Any]:
    return {
        "mode": "server" if given.server_gpus else "colocate",
        "gpus": given.server_gpus,
        "gpu_memory_utilization": utilisation,
        "tensor_parallel_size": tensor_parallel,
        "enable_sleep_mode": sleep,
    }
