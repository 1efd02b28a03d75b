"""Half precision on a CPU: the stage actually computes in it."""

import pytest
from tests.runtime.methods.stage_harness import StageHarness, metrics, recipe

pytestmark = pytest.mark.slow

STAGES = {
    "sft": "data: sums.train, params: {max_steps: 2, batch_size: 8, precision: %s}",
    "ppo": (
        "data: sums.train, reward: solution, params: {max_steps: 2, batch_size: 8, max_completion_length: 6,"
        " precision: %s}"
    ),
}


@pytest.mark.parametrize("method", STAGES)
def test_bfloat16_rounds_more_than_float32(method: str, bench: StageHarness) -> None:
    found = [
        metrics(
            bench.run(recipe(f"it: {{train: {method}, model: sft, {STAGES[method] % how}}}"))["it"], "loss"
        )
        for how in ("float32", "bfloat16")
    ]
    assert found[0] != found[1]
    assert found[1][0] == pytest.approx(found[0][0], rel=0.05, abs=0.01)
