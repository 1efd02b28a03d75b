"""A step that uses a vLLM server on a node of its own, with a stand-in for the command of vLLM."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.runtime.cluster.node_trainings import plan_of

from posttrain.runtime.runners.cluster.cluster_runner import ClusterRunner
from posttrain.runtime.store import workdir
from posttrain.runtime.store.home import Home
from posttrain.spec.plan import Launch, Step

# Every process asks the server where it runs. With a file `stay`, the step does not end.
STEP = """\
import json, os, pathlib, time, urllib.request
from posttrain.runtime.distributed.process_group import all_gather, is_rank_zero
from posttrain.runtime.distributed.vllm_node import use_vllm_server

def run(context):
    with use_vllm_server(context, 256, 0) as arguments:
        with urllib.request.urlopen(arguments["vllm_server_base_url"] + "/about") as answer:
            seen = all_gather({**arguments, **json.load(answer), "client": os.environ["VLLM_HOST_IP"]})
        if is_rank_zero():
            (context.out / "seen.json").write_text(json.dumps(seen))
        while pathlib.Path(__file__).with_name("stay").exists():
            time.sleep(0.05)
"""
# Answers as vLLM does when it is up, and says on which node of the job it runs.
SERVER = """\
import http.server, json, os, pathlib, sys

def node(pid):
    for item in pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode().split(chr(0)):
        if item.startswith(("SLURM_NODEID=", "POSTTRAIN_CLUSTER_NODE_INDEX=")):
            return item.partition("=")[2]
    return node(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(about).encode())

options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
about = {"options": options, "pid": os.getpid(), "node": node(os.getpid())}
http.server.HTTPServer((options["--host"], int(options["--port"])), Answer).serve_forever()
"""


def write_site(folder: Path) -> Path:
    """A folder for PYTHONPATH with the step and, in place of TRL, the stand-in for `trl vllm-serve`."""
    (folder / "trl" / "scripts").mkdir(parents=True)
    for name in ("trl/__init__.py", "trl/scripts/__init__.py"):
        (folder / name).touch()
    (folder / "trl" / "scripts" / "vllm_serve.py").write_text(SERVER)
    (folder / "server_step.py").write_text(STEP)
    return folder


def server_step(recipe: Path, *, processes: int = 2, nodes: int = 1) -> Step:
    """The step of a training, changed to the one above: its nodes, and one for the server."""
    step = plan_of(recipe).step("it")
    rollouts = {"mode": "server", "gpus": 1, "nodes": 1, "tensor_parallel_size": 1}
    strategy = "ddp" if processes > 1 else "single"
    launch = Launch(processes=processes, strategy=strategy, nodes=nodes, engine="vllm", rollouts=rollouts)
    return step.model_copy(update={"entry": "server_step:run", "launch": launch})


def prepare_step(home: Home, recipe: Path, step: Step) -> Path:
    """The working directory of the step, as an executor prepares it."""
    inputs: dict[str, Path] = {}
    for role, source in step.inputs.items():
        product = home.store.find(plan_of(recipe).step(source.step).key)
        assert product is not None
        inputs[role] = product.files
    work = home.workdir(step.key)
    workdir.prepare(work, step, inputs, recipe)
    return work


def run_step(runner: ClusterRunner, work: Path, step: Step, seconds: float = 240) -> int:
    """Submit the step as a client does, and wait for its end."""
    lock = os.open(work / "job.json", os.O_RDONLY)
    try:
        handle = runner.start(work, step, {}, lock)
    finally:
        os.close(lock)
    deadline = time.monotonic() + seconds
    while (status := runner.poll(handle)) is None:
        if time.monotonic() > deadline:
            runner.stop(handle, now=True)
            raise AssertionError("the step does not end")
        time.sleep(0.05)
    return status


def assert_found_on_another_node(seen: list[Mapping[str, Any]], *, processes: int) -> None:
    """All processes have the URL of the server, which runs on the last node."""
    assert len(seen) == processes
    assert all(one == seen[0] for one in seen)
    assert seen[0]["node"] == "1"
    assert seen[0]["options"]["--max_model_len"] == "256"
    url = f"http://{seen[0]['options']['--host']}:{seen[0]['options']['--port']}"
    assert seen[0]["vllm_server_base_url"] == url
    assert seen[0]["vllm_group_port"] not in (0, int(seen[0]["options"]["--port"]))
