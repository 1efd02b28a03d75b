"""Runs one node's share of a step: `python -m posttrain.runtime.node_worker WORK FOLDER INDEX COUNT SERVERS`.

The worker of node 0 is that of the step (`worker.py`). That of another node runs processes only, or, on the
last SERVERS nodes, a vLLM server. It reads the step, writes into the folders of its processes and of the
attempt FOLDER, and reports its end there.
"""

import contextlib
import sys
from pathlib import Path

from posttrain.runtime import worker
from posttrain.runtime.distributed.node_group import NodeGroup
from posttrain.runtime.distributed.peer_nodes import node_end
from posttrain.runtime.errors import FAILED, STOPPED, Interrupted
from posttrain.runtime.events import EventWriter
from posttrain.runtime.step_context import StepContext


def main(work: Path, group: NodeGroup) -> int:
    """Run the processes of a node and return the exit status."""
    if group.index == 0:
        return worker.main(work, group)
    failure: BaseException | None = None
    status = 0
    try:
        context = _create_context(work, group)
        worker.handle_signals(context.stop)
        if group.is_server:
            from posttrain.runtime.distributed.vllm_node import serve_vllm

            serve_vllm(context, group)
        else:
            worker.run_step(context, group)
    except Interrupted:
        status = STOPPED
    except BaseException as error:
        failure, status = error, FAILED
    group.end(node_end(failure, status))
    if failure is not None:
        with contextlib.suppress(OSError):  # a full disk
            sys.stderr.write(f"{type(failure).__name__}: {failure}\n")
    return status


def _create_context(work: Path, group: NodeGroup) -> StepContext:
    """The context that the processes of this node derive theirs from."""
    folder = work / "ranks" / f"node-{group.index}"
    folder.mkdir(parents=True, exist_ok=True)
    return worker.load_context(work, worker.read_job(work), folder, EventWriter(folder / "events.jsonl"))


if __name__ == "__main__":
    work, attempt = (Path(argument) for argument in sys.argv[1:3])
    index, count, servers = (int(argument) for argument in sys.argv[3:6])
    own = NodeGroup(index, count, attempt, servers)
    worker.exit_process(main(work, own))
