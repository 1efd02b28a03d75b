"""The layout of a training stage over the nodes of the target, and its checks.

A stage takes the fewest nodes whose GPUs suffice, with equally many processes on each. On CPUs, it takes as
many nodes as it has processes. A vLLM server takes GPUs of the node that trains, or else a node of its own.
"""

from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.placement.target import Target
from posttrain.spec.diagnostic import Code
from posttrain.spec.hardware import Placement

_TRAIN = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4}}"
_TWO_NODES = ("recipe: 1\n", "recipe: 1\nhardware: {gpus: 4xH100-80GB, nodes: 2}\n")
_TWO_SMALL_NODES = ("recipe: 1\n", "recipe: 1\nhardware: {gpus: 2xH100-80GB, nodes: 2}\n")
_PLACED = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: %d}, placement: {%s}}"
_ONLINE = (
    "{train: grpo, model: base, data: sums.train, reward: right, params: {max_steps: 1, num_generations: 4,"
    " num_prompts: 8}, placement: {rollouts: {engine: vllm, %s}}}"
)
UNEQUAL_NODES = Code(
    "PT1006",
    "processes do not divide over the nodes",
    "error",
    "A stage that needs the GPUs of several nodes runs equally many processes on each of them. Each process"
    " has its own GPU. Without GPUs, the processes divide over all nodes of `hardware`.",
    wrong=minimal_recipe(_TWO_NODES, (_TRAIN, _PLACED % (7, "num_processes: 7"))),
    right=minimal_recipe(_TWO_NODES, (_TRAIN, _PLACED % (8, "num_processes: 8"))),
)
SPLIT_MODEL = Code(
    "PT1007",
    "vLLM does not fit into a node",
    "error",
    "With tensor parallelism, vLLM exchanges data between GPUs in every layer of every token, for which the"
    " network between nodes is too slow. The GPUs over which it splits a model must be in one node. A vLLM"
    " server is in one node too: that of the training, or a node of its own if the training leaves too few"
    " GPUs there.",
    wrong=minimal_recipe(_TWO_SMALL_NODES, (_TRAIN, _ONLINE % "tensor_parallel_size: 4")),
    right=minimal_recipe(_TWO_SMALL_NODES, (_TRAIN, _ONLINE % "tensor_parallel_size: 2")),
)
CODES = (UNEQUAL_NODES, SPLIT_MODEL)


def node_count(processes: int, target: Target) -> int:
    """Return over how many nodes a stage runs its processes."""
    if target.nodes == 1:
        return 1
    return -(-processes // target.gpus) if target.gpus else min(processes, target.nodes)


def divides_over_nodes(processes: int, target: Target) -> bool:
    return processes % node_count(processes, target) == 0


def server_node_count(processes: int, server: int, target: Target) -> int:
    """Return how many nodes a vLLM server has for itself: one if it does not fit next to the training."""
    return int(server > 0 and processes + server > target.gpus)


def node_layout_error(
    requested: Placement, processes: int, server: int, target: Target
) -> tuple[Code, str, str] | None:
    """Return the code, the message and the help for a layout that the nodes cannot have."""
    nodes = node_count(processes, target)
    if server > target.gpus > 0:
        message = f"the vLLM server has {server} GPUs, but a node has {target.gpus}"
        return SPLIT_MODEL, message, f"set `gpus` of `rollouts` to {target.gpus} at most"
    if nodes + server_node_count(processes, server, target) > target.nodes:
        plural = "s" if nodes > 1 else ""
        message = (
            f"{processes} processes need {nodes} node{plural} of {target.gpus} GPUs, and the vLLM server with"
            f" {server} GPUs needs another one, but the target has {target.nodes}"
        )
        most = max(1, target.gpus * (target.nodes - 1), target.gpus - server)
        return SPLIT_MODEL, message, f"use `mode: colocate`, or `num_processes: {most}` at most"
    if processes % nodes:
        message = f"{processes} processes need {nodes} nodes, and do not divide equally over them"
        most = target.processes or processes + target.nodes
        fitting = [n for n in range(1, most + 1) if divides_over_nodes(n, target)]
        below, above = [n for n in fitting if n < processes], [n for n in fitting if n > processes]
        close = " or ".join(str(n) for n in (*below[-1:], *above[:1]))
        return UNEQUAL_NODES, message, f"set `num_processes` to {close}, and a batch size that it divides"
    parallel, local = requested.rollouts.tensor_parallel_size, processes // nodes
    if parallel and not server and nodes > 1 and local % parallel:
        message = (
            f"`tensor_parallel_size: {parallel}` splits the model over GPUs of several nodes: the stage has"
            f" {local} GPUs on each of {nodes} nodes"
        )
        return SPLIT_MODEL, message, f"use a divisor of {local}, or remove the key"
    return None
