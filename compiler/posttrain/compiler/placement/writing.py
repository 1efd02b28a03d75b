"""What writes the completions that a training stage learns from, and how vLLM is set up for it."""

from typing import Any

from posttrain.compiler.checks.subject import Subject
from posttrain.compiler.placement.choose import Chosen, Given
from posttrain.compiler.placement.target import Target
from posttrain.spec.hardware import Placement


def engine_of(subject: Subject, wanted: Placement, target: Target) -> str:
    return subject.engine(wanted.rollouts.engine, bool(target.gpus))


def unserved(subject: Subject, wanted: Placement, target: Target) -> str:
    """Why completions cannot be written as the recipe says, in a sentence; empty where they can."""
    rollouts, foot = wanted.rollouts, subject.method.footprint
    if not foot.writes:
        return ""
    if rollouts.engine not in ("auto", *foot.engines):
        able = ", ".join(foot.engines)
        return (
            f"`{subject.method.name}` cannot write by {rollouts.engine}; it can by {able}: write"
            f" `engine: {able}`, or leave it out"
        )
    engine = engine_of(subject, wanted, target)
    if rollouts.mode == "server" and engine != "vllm":
        return f"`mode: server` is a server of vLLM's, and {engine} writes the completions: take `mode` out"
    if rollouts.gpus is not None and rollouts.mode != "server":
        return "`gpus` are vLLM's own with `mode: server`; without it vLLM shares those of the training"
    if engine == "vllm" and subject.in_eight_bits:
        return "vLLM takes no weights in 8 bits from a training: write `engine: transformers`"
    return ""


def chosen_rollouts(chosen: Chosen, given: Given) -> dict[str, Any]:
    """How vLLM is set up, as it was chosen."""
    rollout = chosen.choice.rollout
    if rollout is None or rollout.engine != "vllm":
        return {}
    return _told(given, rollout.utilisation, rollout.tensor_parallel, rollout.sleeps)


def given_rollouts(given: Given) -> dict[str, Any]:
    """How vLLM is set up where there is nothing to choose by: as the recipe says."""
    if given.engine != "vllm":
        return {}
    return _told(given, given.utilisation, given.tensor_parallel, given.sleep)


def _told(
    given: Given, utilisation: float | None, tensor_parallel: int | None, sleep: bool | None
) -> dict[str, Any]:
    return {
        "mode": "server" if given.server else "colocate",
        "gpus": given.server,
        "utilisation": utilisation,
        "tensor_parallel": tensor_parallel,
        "sleep": sleep,
    }
