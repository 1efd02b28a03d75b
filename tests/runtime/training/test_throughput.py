"""The time of a step includes the kernels that the CPU has launched, and its tokens are counted once."""

import time

import pytest

from posttrain.runtime.training.throughput import Throughput


def test_the_time_of_a_step_includes_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 0)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: time.sleep(0.05))
    throughput = Throughput(4)
    throughput.start_step()
    throughput.end_step()
    assert throughput.pop_metrics({})["cost/step_seconds"] >= 0.05


def measured(throughput: Throughput, tokens: float) -> dict[str, float]:
    throughput.start_step()
    time.sleep(0.001)
    throughput.end_step()
    return throughput.pop_metrics({"num_tokens": tokens})


def test_the_tokens_of_each_step_are_counted_from_the_first() -> None:
    throughput = Throughput(4)
    throughput.start(0)
    assert [measured(throughput, total)["cost/tokens"] for total in (100, 250, 250)] == [100, 150, 0]


def test_a_resumed_stage_counts_its_own_tokens() -> None:
    """Some trainers restore their count from the checkpoint, others start at 0 again."""
    restored, fresh = Throughput(4), Throughput(4)
    restored.start(1000)
    fresh.start(0)
    assert measured(restored, 1100)["cost/tokens"] == measured(fresh, 100)["cost/tokens"] == 100
    assert measured(restored, 1150)["cost/tokens_per_second"] > 0
