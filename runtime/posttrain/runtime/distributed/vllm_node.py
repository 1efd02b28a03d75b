"""A vLLM server on a node of its own: what that node runs, and how the training finds it.

When rank 0 knows what it requires, it writes a request into the folder of the attempt. The node starts the
server, and publishes its address there. An end of the server is the failure of that node, which node 0 sees
(`peer_nodes.py`); the end of the training ends the node.
"""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from posttrain.runtime.distributed import vllm_server
from posttrain.runtime.distributed.node_group import NodeGroup
from posttrain.runtime.distributed.node_rendezvous import meet_as_other
from posttrain.runtime.distributed.process_group import broadcast, is_rank_zero
from posttrain.runtime.environment_proxies import exempt_loopback
from posttrain.runtime.errors import Interrupted
from posttrain.runtime.step_context import StepContext
from posttrain.spec.document import Document
from posttrain.spec.step_params.train_params import TrainStepParams
from posttrain.spec.step_records import ServerAddress, ServerRequest

DocumentT = TypeVar("DocumentT", bound=Document)
_REQUEST, _ADDRESS = "server-request.json", "server.json"
_POLL_SECONDS = 0.2


def serve_vllm(context: StepContext[TrainStepParams], group: NodeGroup) -> None:
    """Run the server of the step on this node, until the attempt ends."""
    point = meet_as_other(group)
    request = _await(group, ServerRequest, _REQUEST)
    host = point.own_address
    port, group_port = vllm_server.free_port(host), vllm_server.free_port(host)
    weights, launch = vllm_server.full_weights_dir(context), context.step.launch
    line = vllm_server.server_command(weights, port, launch, request.max_model_len, request.seed, host)
    gpus = _first_gpus(launch.rollouts["gpus"])
    environment = {**vllm_server.server_environment(gpus), "VLLM_HOST_IP": host}
    server = vllm_server.start_server(line, environment, f"http://{host}:{port}", context.work)
    try:
        address = ServerAddress(url=server.url, group_port=group_port, client=point.address)
        group.write(_ADDRESS, address)
        while not group.is_void:
            if server.process.poll() is not None:
                raise vllm_server.exit_error(server)
            time.sleep(_POLL_SECONDS)
    finally:
        vllm_server.stop_server(server)


@contextmanager
def use_vllm_server(context: StepContext[TrainStepParams], room: int, step: int) -> Generator[dict[str, Any]]:
    """Yield the trainer arguments for the server of the step, on this node or on its own; none without a
    server. See `run_vllm_server` for the parameters."""
    if context.step.launch.server_nodes:
        seed = vllm_server.server_seed(context, step)
        yield _join_server(context, ServerRequest(max_model_len=room, seed=seed))
        return
    with vllm_server.run_vllm_server(context, room, step) as arguments:
        yield arguments


def _join_server(context: StepContext[TrainStepParams], request: ServerRequest) -> dict[str, Any]:
    """Wait for the server, and return the trainer arguments for it. Called by all processes."""
    found: tuple[str, int, str] | None = None
    if is_rank_zero():
        server = _request_server(context, request)
        found = server.url, server.group_port, server.client
    url, group_port, own_address = broadcast(found) or ("", 0, "")
    # The trainer's address for the weight transfer. By default vLLM uses the machine's external address.
    os.environ |= {"VLLM_HOST_IP": own_address, **exempt_loopback(os.environ, urlsplit(url).hostname or "")}
    if context.step.launch.processes == 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = _first_gpus(1)  # a single process would use all visible GPUs
    return vllm_server.server_arguments(url, group_port)


def _request_server(context: StepContext, request: ServerRequest) -> ServerAddress:
    """Wait until the server is healthy. If it ends, node 0 ends this process."""
    assert context.attempt is not None, "a step with a server node has several nodes"
    launch = context.step.launch
    group = NodeGroup(0, launch.all_nodes, context.attempt, launch.server_nodes)
    context.events.emit("phase", name="starting vLLM")
    group.write(_REQUEST, request)
    address = _await(group, ServerAddress, _ADDRESS, context)
    deadline = time.monotonic() + vllm_server.START_SECONDS
    while not vllm_server.is_healthy(address.url):
        if context.stop.requested:
            raise Interrupted
        if time.monotonic() > deadline:
            raise vllm_server.start_timeout()
        time.sleep(_POLL_SECONDS)
    return address


def _first_gpus(count: int) -> str:
    """The GPUs of this node that its role needs. A job has equally many on all nodes."""
    return ",".join(vllm_server.visible_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"), count)[:count])


def _await(
    group: NodeGroup, model: type[DocumentT], name: str, context: StepContext | None = None
) -> DocumentT:
    """The document that another node writes. Node 0 ends the step if that node is lost."""
    while (found := group.read(model, name)) is None:
        if group.is_void or (context is not None and context.stop.requested):
            raise Interrupted
        time.sleep(_POLL_SECONDS)
    return found
