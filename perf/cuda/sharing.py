"""Trains in two processes on one card over gloo. `container_step.py` then runs a recipe in a container.

A plan gives every process a GPU of its own. Here the worker's processes share the first one, and gloo
replaces NCCL, which refuses two processes on a card. That covers everything of a run with several GPUs but
NCCL and the copies between cards.
"""

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from perf.cuda.bench import Bench
from perf.cuda.container_step import report_container
from perf.cuda.forked import preload
from perf.cuda.methods import loss_verdict
from perf.cuda.worker_runs import StageRuns, metric

_STRATEGIES = ("ddp", "zero2")


def run(bench: Bench) -> None:
    preload()
    _report_processes(bench)
    report_container(bench)


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

    def init_deepspeed(_backend: str) -> None:
        deepspeed("gloo")

    def select_first_card(_device: Any) -> None:
        select(0)

    deepspeed = rendezvous._init_deepspeed
    with ExitStack() as stack:
        for owner, name, value in (
            (launcher, "join_process_group", join_on_first_card),
            (distributed, "init_process_group", init_gloo),
            (rendezvous, "_init_deepspeed", init_deepspeed),
            (torch.cuda, "set_device", select_first_card),
        ):
            stack.enter_context(patch.object(owner, name, value))
        yield
