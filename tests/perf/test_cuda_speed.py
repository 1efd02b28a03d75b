"""The operations from which the GPU measurements compute MFU."""

from types import SimpleNamespace
from typing import Any

import pytest
from perf.cuda import speed


@pytest.mark.parametrize(
    ("method", "params", "factor"),
    [
        ("sft", {}, 6),
        ("sft", {"gradient_checkpointing": True}, 8),
        ("dpo", {"beta": 0.1}, 8),
        ("grpo", {"num_prompts": 4, "num_generations": 4, "beta": 0.0}, 6),
        ("grpo", {"num_prompts": 4, "num_generations": 4, "beta": 0.04}, 8),
    ],
)
def test_operations_of_a_step(
    method: str, params: dict[str, Any], factor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[float] = []

    def parameters(_shape: Any, length: float) -> float:
        lengths.append(length)
        return 1e9

    monkeypatch.setattr(speed, "effective_parameters", parameters)
    given = {"gradient_checkpointing": False, "batch_size": 16, **params}
    shape: Any = SimpleNamespace()
    assert speed.model_operations(method, given, shape, 3200.0) == factor * 3200e9
    # A pair of DPO is two rows.
    assert lengths == [100.0 if method == "dpo" else 200.0]
