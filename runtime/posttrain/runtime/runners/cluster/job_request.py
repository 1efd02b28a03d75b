"""What a step requests of a cluster. Placement, queueing and counting of GPUs are the engine's."""

from posttrain.spec.place import Place
from posttrain.spec.plan import Step
from posttrain.spec.record import record


@record(kw_only=True)
class JobRequest:
    """The resources of a job, on each of its nodes."""

    cpus: int
    memory_gb: float | None
    gpus: int
    # More than one node: the job runs its command once on each of them.
    nodes: int = 1


def step_request(step: Step, place: Place) -> JobRequest:
    """The request of a step on each of its nodes: the values of the plan, at least those of the place."""
    declared, nodes = step.resources, step.launch.nodes
    estimated = None if declared.gpus else (step.estimate or {}).get("memory_gb")
    memory = declared.memory_gb
    if memory is None and isinstance(estimated, int | float):
        memory = max(estimated * step.launch.processes / nodes, place.memory_gb or 0)
    return JobRequest(
        cpus=max(-(-declared.cpus // nodes), place.cpus),
        memory_gb=place.memory_gb if memory is None else memory,
        gpus=_gpus_per_node(step),
        nodes=step.launch.all_nodes,
    )


def _gpus_per_node(step: Step) -> int:
    """The GPUs of each node. All nodes of a job request the same: the most that one of them needs."""
    launch, gpus = step.launch, step.resources.gpus
    if not gpus or not launch.server_nodes:
        return gpus // launch.nodes
    training = launch.processes // launch.nodes
    return max(training, gpus - launch.processes)


def unmet_limit(step: Step, place: Place) -> str | None:
    """Why the place can never run a step, as far as its declaration says; None if it can."""
    request = step_request(step, place)
    if place.gpus_per_node is not None and request.gpus > place.gpus_per_node:
        return f"it requires {request.gpus} GPUs, but a node has {place.gpus_per_node} (`gpus_per_node`)"
    if place.max_nodes is not None and request.nodes > place.max_nodes:
        return f"it requires {request.nodes} nodes, but a run gets {place.max_nodes} (`max_nodes`)"
    if step.image is not None and getattr(place, "container", None) is None:
        return "it has a container image, but the place does not declare how to start one (`container`)"
    return None


def describe_request(request: JobRequest) -> str:
    """A request as text, for the plan."""
    parts = [f"{request.cpus} core" + ("s" if request.cpus > 1 else "")]
    parts += [f"{request.memory_gb:g} GB"] if request.memory_gb is not None else []
    parts += [f"{request.gpus} GPU" + ("s" if request.gpus > 1 else "")] if request.gpus else []
    parts += [f"{request.nodes} nodes"] if request.nodes > 1 else []
    return ", ".join(parts)
