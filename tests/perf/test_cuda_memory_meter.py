"""The meter of a training step, with numbers as torch's allocator would report them on a GPU."""

from types import SimpleNamespace
from typing import Any

import pytest
from perf.cuda.memory_meter import StepMeter
from perf.cuda.worker_runs import StopTraining

WEIGHTS, STATES, GRADIENTS, ACTIVATIONS, WORKSPACE = 1000, 2000, 500, 300, 32


class FakeCuda:
    """Counts as the allocator does: the workspace of cuBLAS from the first product on, as a tensor."""

    def __init__(self) -> None:
        self.allocated = self.highest = WEIGHTS

    def add(self, size: int) -> None:
        self.allocated += size
        self.highest = max(self.highest, self.allocated)

    def now(self) -> int:
        return self.allocated

    def peak(self) -> int:
        return self.highest

    def reset_peak(self) -> None:
        self.highest = self.allocated

    def reserved_peak(self) -> int:
        return 4096

    def context(self) -> int:
        return 600

    def workspaces(self) -> int:
        self.add(-WORKSPACE)
        return WORKSPACE


def test_the_terms_of_a_step_are_without_the_workspaces_of_cublas() -> None:
    memory: Any = FakeCuda()
    meter = StepMeter(memory, None)
    trainer: Any = SimpleNamespace(compute_loss=lambda: memory.add(ACTIVATIONS))
    for step in (1, 2):
        meter.begin(trainer)
        if step == 1:
            memory.add(WORKSPACE)
        trainer.compute_loss()
        memory.add(GRADIENTS)
        memory.add(-ACTIVATIONS)
        meter.end()
        memory.add(STATES if step == 1 else 0)
        memory.add(-GRADIENTS)
    with pytest.raises(StopTraining):
        meter.begin(trainer)
    assert meter.found == {
        "weights": WEIGHTS,
        "optimizer": STATES,
        "activations": ACTIVATIONS,
        "gradients": GRADIENTS,
        "before the loss": WEIGHTS + STATES,
        "forward": WEIGHTS + STATES + ACTIVATIONS,
        "backward": WEIGHTS + STATES + ACTIVATIONS + GRADIENTS,
        "optimizer step": WEIGHTS + STATES + GRADIENTS,
        "allocated": WEIGHTS + STATES + ACTIVATIONS + GRADIENTS,
        "reserved": 4096 - WORKSPACE,
        "context": 600 + WORKSPACE,
    }
