"""Trains in two processes on one card over gloo, and runs a recipe in a container.

A plan gives every process a GPU of its own. Here the worker's processes share the first one, and gloo
replaces NCCL, which refuses two processes on a card. That covers everything of a run with several GPUs but
NCCL and the copies between cards.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from perf.cuda.bench import Bench
from perf.cuda.forked import preload
from perf.cuda.methods import loss_verdict
from perf.cuda.worker_runs import StageRuns, metric

_IMAGE = "posttrain-cuda:latest"
_STRATEGIES = ("ddp", "zero2")


def run(bench: Bench) -> None:
    preload()
    _report_processes(bench)
    _report_container(bench)


def _report_processes(bench: Bench) -> None:
    head = ["stage", "ended", "strategy", "loss, one process", "loss, two processes", "losses", "step, s"]
    note = "The last loss of each. With two processes each has half of the batch."
    table = bench.report.table("Two processes on one card, over gloo", head, note)
    steps = bench.scale.steps
    common = f"max_steps: {steps}, save_steps: {steps}, learning_rate: {bench.scale.learning_rate / 5}"
    stages = {
        "sft": (
            "train: sft, model: narrow, data: sums, PLACED params: {batch_size: 26, max_length: 64,"
            f" {common}}}"
        ),
        "grpo": (
            "train: grpo, model: narrow, data: sums, reward: solution, PLACED params: {num_prompts: 8,"
            f" num_generations: 4, max_completion_length: 6, on_constant_reward: warn, {common}}}"
        ),
    }
    alone = StageRuns(
        bench, "alone", {n: s.replace("PLACED", _placement(n)) for n, s in stages.items()}, ("narrow",), {}
    )
    for strategy in _strategies(bench):
        placed = {n: s.replace("PLACED", _placement(n, strategy)) for n, s in stages.items()}
        both = StageRuns(bench, f"both-{strategy}", placed, ("narrow",), {}, gpus=2)
        for stage in stages:
            bench.attempt(table, stage, 20, partial(_processes_row, alone, both, stage, strategy))


def _strategies(bench: Bench) -> tuple[str, ...]:
    """On a CPU DeepSpeed first compiles its operations for minutes: tests/runtime/distributed covers it."""
    return _STRATEGIES[:1] if bench.scale.dry else _STRATEGIES


def _placement(stage: str, strategy: str = "") -> str:
    options = [f"num_processes: 2, strategy: {strategy}"] if strategy else []
    options += ["rollouts: {engine: transformers}"] if stage == "grpo" else []
    return f"placement: {{{', '.join(options)}}}," if options else ""


def _processes_row(alone: StageRuns, both: StageRuns, stage: str, strategy: str) -> list[Any]:
    one = metric(alone.run(stage), "loss")
    events = both.run(stage, share_one_card)
    two = metric(events, "loss")
    verdict, largest = loss_verdict(two, one)
    shown = verdict if largest is None else f"{verdict}, {largest:.2g}"
    # Each process samples its own completions.
    compared = shown if stage == "sft" else "not compared: sampled"
    seconds = metric(events, "cost/step_seconds")
    return [True, strategy, one[-1], two[-1], compared, seconds[-1]]


@contextmanager
def share_one_card() -> Generator[None]:
    """Let the processes of the worker inside share the first card, and meet over gloo."""
    from importlib import import_module

    import torch

    launcher: Any = import_module("posttrain.runtime.distributed.rank_launcher")
    rendezvous: Any = import_module("posttrain.runtime.distributed.rendezvous")
    distributed: Any = import_module("torch.distributed")
    join, init, select = launcher.join_process_group, distributed.init_process_group, torch.cuda.set_device

    def init_gloo(backend: str, **options: Any) -> None:
        init("gloo", **options)

    def join_on_first_card(rank: int, *rest: Any) -> None:
        join(rank, *rest)
        os.environ["LOCAL_RANK"] = "0"  # accelerate selects the card by it

    deepspeed = rendezvous._init_deepspeed
    with ExitStack() as stack:
        for owner, name, value in (
            (launcher, "join_process_group", join_on_first_card),
            (distributed, "init_process_group", init_gloo),
            (rendezvous, "_init_deepspeed", lambda _backend: deepspeed("gloo")),
            (torch.cuda, "set_device", lambda _device: select(0)),
        ):
            stack.enter_context(patch.object(owner, name, value))
        yield


def _report_container(bench: Bench) -> None:
    head = ["image", "result", "GPU in the container"]
    note = f"The image {_IMAGE}, of `containers/build cuda`."
    table = bench.report.table("A container", head, note)
    bench.attempt(table, _IMAGE, 20, _container_row)


def _container_row() -> list[Any]:
    if shutil.which("docker") is None:
        return ["no: there is no Docker client", None]
    if _docker("info", "--format", "{{.ServerVersion}}").returncode:
        return ["no: no Docker engine answers", None]
    if _docker("image", "inspect", _IMAGE).returncode:
        return ["no: the image is not on this machine", None]
    program = (
        "import torch, json; found = torch.cuda.is_available(); device = 'cuda' if found else 'cpu';"
        "x = torch.ones(64, 64, device=device, requires_grad=True); (x @ x).sum().backward();"
        "print(json.dumps([float(x.grad.sum()), torch.cuda.get_device_name() if found else 'none']))"
    )
    gpus = ["--gpus", "all"] if shutil.which("nvidia-smi") else []
    done = _docker("run", "--rm", "--network", "none", *gpus, _IMAGE, "python", "-c", program)
    if done.returncode:
        return [f"no: {done.stderr.strip().splitlines()[-1:]}", None]
    total, card = json.loads(done.stdout.strip().splitlines()[-1])
    return ["a backward pass is correct" if total == 2 * 64**3 else f"wrong sum {total}", card]


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
