"""Finds the steps that require more cores, memory or GPUs than this machine has."""

from collections.abc import Iterable, Iterator

from posttrain.runtime.machine import Machine
from posttrain.runtime.preflight.finding import Finding, error
from posttrain.runtime.preflight.scope import Probe, Scope
from posttrain.spec.plan import Step


def probes(scope: Scope) -> Iterator[Probe]:
    yield lambda: list(unmet_requirements(scope.steps, scope.machine))


def unmet_requirements(steps: Iterable[Step], machine: Machine) -> Iterator[Finding]:
    """The requirements of steps that this machine can never meet, at most one for each step."""
    for step in steps:
        found = _unmet_requirement(step, machine)
        if found is not None:
            yield error("machine", step, *found)


def _unmet_requirement(step: Step, machine: Machine) -> tuple[str, str] | None:
    """The cause and the advice."""
    required = step.resources
    if step.launch.all_nodes > 1:
        cause = f"`{step.id}` runs on {step.launch.all_nodes} nodes, but this is one machine"
        return cause, "run it on a cluster with `--on NAME`, or remove `hardware.nodes`"
    if required.gpus > len(machine.gpus):
        wanted, available = _pluralize(required.gpus, "GPU"), str(len(machine.gpus) or "none")
        cause = f"`{step.id}` requires {wanted}, but this machine has {available} available"
        return cause, f"run the recipe on a machine with {wanted} (planning works here)"
    if required.cpus > machine.cpus:
        wanted = _pluralize(required.cpus, "core")
        cause = f"`{step.id}` requires {wanted}, but this machine has {machine.cpus}"
        return cause, f"lower hardware.cpus, or run it on a machine with {wanted}"
    if required.memory_gb is not None and required.memory_gb > machine.memory_gb:
        cause = (
            f"`{step.id}` requires {required.memory_gb:g} GB of memory, but this machine has"
            f" {machine.memory_gb:.1f} GB"
        )
        return cause, f"lower its memory_gb, or run it on a machine with {required.memory_gb:g} GB"
    return None


def _pluralize(count: int, word: str) -> str:
    return f"{count} {word}" + ("" if count == 1 else "s")
