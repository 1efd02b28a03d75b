"""The profile of a step: what it adds up, from events as torch's profiler reports them on a GPU."""

from types import SimpleNamespace
from typing import Any

import pytest
from perf.cuda.step_profile import summary


def event(name: str, kind: str, began: int, ended: int, annotation: bool = False) -> Any:
    span = SimpleNamespace(start=began, end=ended, elapsed_us=lambda: ended - began)
    return SimpleNamespace(
        name=name,
        device_type=SimpleNamespace(name=kind),
        time_range=span,
        is_user_annotation=annotation,
        self_cpu_time_total=0,
    )


def test_an_annotation_is_not_added_to_its_kernels() -> None:
    """torch annotates the step of an optimizer, on the GPU too."""
    events = [
        event("aten::mm", "CPU", 0, 1_000_000),
        event("nvjet_gemm", "CUDA", 200_000, 500_000),
        event("multi_tensor_apply_kernel", "CUDA", 500_000, 700_000),
        event("Optimizer.step#AdamW.step", "CUDA", 500_000, 700_000, annotation=True),
    ]
    found = {name: seconds for name, seconds, _ in summary(SimpleNamespace(events=lambda: events), True)}
    assert found["whole step"] == pytest.approx(1.0)
    assert found["matrix products"] == pytest.approx(0.3)
    assert found["optimizer"] == pytest.approx(0.2)
    assert found["idle"] == pytest.approx(0.5)
    assert "Optimizer.step#AdamW.step" not in found
