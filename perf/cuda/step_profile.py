"""Profiles one training step with torch's profiler, and sums its kernels by what they do."""

import contextlib
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from perf.cuda.worker_runs import StopTraining

from posttrain.runtime import atomic_io

_PROFILED_STEP = 3
_LARGEST = 6
_NAME_LENGTH = 60
# By the name of a kernel, or of an operation on a CPU; the first that fits.
_PATTERNS = {
    "attention": r"flash|attention|sdpa|fmha",
    "matrix products": r"gemm|matmul|\bmm\b|addmm|bmm|linear|cutlass|nvjet|wgmma|xmma",
    "optimizer": r"adam|multi_tensor|foreach|lamb",
    "loss and softmax": r"softmax|cross_entropy|logsumexp|chunked|logprob|nll",
    "normalization": r"norm",
    "copies and casts": r"copy|memcpy|memset|\bto\b|cast|fill|zero",
    "indexing": r"index|gather|scatter|embedding|sort|cumsum|scan",
    "element-wise": r"elementwise|mul|add|silu|pow|div|sub|neg|exp|sigmoid|where|triton",
}
CATEGORIES = (*_PATTERNS, "other", "idle", "whole step")


def category(name: str) -> str:
    lowered = name.lower()
    return next((kind for kind, pattern in _PATTERNS.items() if re.search(pattern, lowered)), "other")


@contextlib.contextmanager
def profile_step(file: Path) -> Generator[None]:
    """Profile the third step of the trainer that runs inside, and stop it."""
    import torch
    from torch.profiler import ProfilerActivity, profile
    from transformers import TrainerCallback
    from transformers.trainer import Trainer

    gpu = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if gpu else [])]
    profiler = profile(activities=activities)
    original = Trainer.__init__

    class ProfileCallback(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == _PROFILED_STEP - 1:
                profiler.start()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == _PROFILED_STEP:
                if gpu:
                    torch.cuda.synchronize()
                profiler.stop()
                atomic_io.write_json(file, summary(profiler, gpu))
                raise StopTraining

    def init(trainer: Any, *given: Any, **named: Any) -> None:
        original(trainer, *given, **named)
        trainer.add_callback(ProfileCallback())

    with patch.object(Trainer, "__init__", init):
        yield


def summary(profiler: Any, gpu: bool) -> list[tuple[str, float, int]]:
    """Name, seconds and calls: the categories, the rest of the step, and the largest kernels."""
    kernels: dict[str, list[float]] = {}
    events = list(profiler.events())
    began = min(event.time_range.start for event in events)
    ended = max(event.time_range.end for event in events)
    for event in events:
        on_gpu = event.device_type.name == "CUDA"
        # An annotation, such as that of an optimizer's step, spans kernels that are events themselves.
        if on_gpu == gpu and not (gpu and event.is_user_annotation):
            seconds = (event.time_range.elapsed_us() if gpu else event.self_cpu_time_total) / 1e6
            total = kernels.setdefault(event.name, [0.0, 0])
            total[0] += seconds
            total[1] += 1
    sums: dict[str, list[float]] = {kind: [0.0, 0] for kind in (*_PATTERNS, "other")}
    for name, (seconds, calls) in kernels.items():
        kind = sums[category(name)]
        kind[0] += seconds
        kind[1] += calls
    whole = (ended - began) / 1e6
    busy = sum(seconds for seconds, _ in sums.values())
    largest = sorted(kernels.items(), key=lambda one: -one[1][0])[:_LARGEST]
    return [
        ("whole step", whole, 1),
        *((kind, seconds, int(calls)) for kind, (seconds, calls) in sums.items() if calls),
        ("idle", max(0.0, whole - busy), 0),
        *((name[:_NAME_LENGTH], seconds, int(calls)) for name, (seconds, calls) in largest),
    ]


def read_profile(file: Path) -> list[tuple[str, float, int]]:
    found = atomic_io.read_json(file)
    if found is None:
        raise ValueError(f"the stage ended before step {_PROFILED_STEP}")
    return [(name, seconds, calls) for name, seconds, calls in found]
