"""Measures the memory of the phases of a training step, from hooks around the trainer.

On a GPU torch's allocator counts. On a CPU a dispatch mode counts the storages of tensors, so that the same
code runs there.
"""

import contextlib
from collections.abc import Generator
from importlib import import_module
from typing import Any
from unittest.mock import patch

from perf.cuda.worker_runs import StopTraining
from perf.storage_tracker import StorageTracker

_MEASURED_STEP = 2  # the optimizer states exist from the first one
PHASES = ("before the loss", "forward", "backward", "optimizer step")


class _CudaMemory:
    def now(self) -> int:
        import torch

        torch.cuda.synchronize()
        return torch.cuda.memory_allocated()

    def peak(self) -> int:
        import torch

        return torch.cuda.max_memory_allocated()

    def reset_peak(self) -> None:
        import torch

        torch.cuda.reset_peak_memory_stats()

    def reserved_peak(self) -> int:
        import torch

        return torch.cuda.max_memory_reserved()

    def context(self) -> int:
        """What the card has in use besides the memory that torch has reserved."""
        import torch

        free, total = torch.cuda.mem_get_info()
        return total - free - torch.cuda.memory_reserved()

    def workspaces(self) -> int:
        """What cuBLAS holds in the allocator from the first product on. The prediction counts it as a part
        of the context. It is released here."""
        internals: Any = import_module("torch._C")  # there is no public function
        before = self.now()
        internals._cuda_clearCublasWorkspaces()
        return before - self.now()


class _CpuMemory:
    def __init__(self, tracker: StorageTracker) -> None:
        self._tracker = tracker

    def now(self) -> int:
        return self._tracker.now

    def peak(self) -> int:
        return self._tracker.peak

    def reset_peak(self) -> None:
        self._tracker.peak = self._tracker.now

    def reserved_peak(self) -> int:
        return self._tracker.peak

    def context(self) -> int:
        """The memory of the process besides tensors."""
        from posttrain.runtime.worker import peak_memory_mb

        return int(peak_memory_mb() * 2**20) - self._tracker.peak

    def workspaces(self) -> int:
        return 0


class StepMeter:
    """Hooks of one training step. `found` is complete when the step after the measured one begins."""

    def __init__(self, memory: _CudaMemory | _CpuMemory, tracker: StorageTracker | None) -> None:
        self._memory = memory
        self._tracker = tracker
        self._calls = 0
        self._largest_peak = 0
        self._largest_reserved = 0
        self._begin_allocated = 0
        self.found: dict[str, int] = {}

    def begin(self, trainer: Any) -> None:
        """A micro-batch begins: the optimizer step of the one before has ended."""
        self._calls += 1
        if self._calls == 1:
            self._count_models(trainer)
            trainer.compute_loss = self._watched_loss(trainer.compute_loss)
        now = self._memory.now()
        if self._calls == 1:
            self.found["weights"] = now
        if self._calls == _MEASURED_STEP:
            self.found["optimizer"] = now - self.found["weights"]
        self._next_phase("optimizer step", _MEASURED_STEP + 1)
        if self._calls == _MEASURED_STEP + 1:
            self.found |= {
                "allocated": self._largest_peak,
                "reserved": self._largest_reserved,
                "context": self._memory.context(),
            }
            self._count_workspaces()
            raise StopTraining
        self._begin_allocated = now

    def end(self) -> None:
        self._next_phase("backward", _MEASURED_STEP)
        if self._calls == _MEASURED_STEP:
            self.found["gradients"] = self._memory.now() - self._begin_allocated

    def _watched_loss(self, compute: Any) -> Any:
        def compute_loss(*given: Any, **named: Any) -> Any:
            self._next_phase("before the loss", _MEASURED_STEP)
            before = self._memory.now()
            result = compute(*given, **named)
            if self._calls == _MEASURED_STEP:
                self.found["activations"] = self._memory.now() - before
            self._next_phase("forward", _MEASURED_STEP)
            return result

        return compute_loss

    def _count_workspaces(self) -> None:
        """Move the workspaces of cuBLAS from the tensors to the context. The weights were counted before the
        first product."""
        size = self._memory.workspaces()
        for name in ("optimizer", "allocated", "reserved", *PHASES):
            self.found[name] -= size
        self.found["context"] += size

    def _next_phase(self, ended: str, of: int) -> None:
        peak = self._memory.peak()
        self._largest_peak = max(self._largest_peak, peak)
        self._largest_reserved = max(self._largest_reserved, self._memory.reserved_peak())
        if self._calls == of:
            self.found[ended] = peak
        self._memory.reset_peak()

    def _count_models(self, trainer: Any) -> None:
        if self._tracker is not None:
            for model in (trainer.model, getattr(trainer, "ref_model", None)):
                if model is not None:
                    self._tracker.count([*model.parameters(), *model.buffers()])


@contextlib.contextmanager
def measure_step(found: dict[str, int]) -> Generator[None]:
    """Measure the second step of the trainer that runs inside, and stop it at its third."""
    import torch
    from transformers import Trainer

    gpu = torch.cuda.is_available()
    tracker = None if gpu else StorageTracker()
    meter = StepMeter(_CudaMemory() if tracker is None else _CpuMemory(tracker), tracker)
    original = Trainer.training_step

    def training_step(trainer: Any, *given: Any, **named: Any) -> Any:
        meter.begin(trainer)
        result = original(trainer, *given, **named)
        meter.end()
        return result

    with patch.object(Trainer, "training_step", training_step), tracker or contextlib.nullcontext():
        yield
    found |= meter.found
