"""The compiler's plan for PPO on GPUs: engines, strategies and memory."""

from typing import Any

import pytest
from tests.compiler.placement.test_placement import LORA, compile_stage, estimate_of, placed_step

PPO = (
    "{train: ppo, model: base, data: sums, reward: right,"
    " params: {max_steps: 100, batch_size: 64, max_completion_length: 1024%s}%s}"
)
SMALL = "Qwen/Qwen3-0.6B"


def memory_terms(more: str = "", keys: str = "", model: str = SMALL) -> dict[str, float]:
    found: list[dict[str, Any]] = estimate_of(placed_step(PPO % (more, keys), "{gpus: 8xH100-80GB}", model))[
        "terms"
    ]
    return {term["name"]: term["gb"] for term in found}


def test_it_writes_by_transformers_and_divides_as_it_can() -> None:
    small = placed_step(PPO % ("", ""), "{gpus: 8xH100-80GB}", SMALL)
    assert (small.launch.engine, small.launch.strategy) == ("transformers", "ddp")
    large = placed_step(PPO % ("", ""), "{gpus: 8xH100-80GB}", "Qwen/Qwen3-4B")
    assert (large.launch.engine, large.launch.strategy) == ("transformers", "zero2")


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ("{rollouts: {engine: vllm}}", "does not support `engine: vllm`: set `engine: transformers`"),
        ("{strategy: zero3}", "does not support `zero3`; it supports single, ddp, zero1, zero2"),
        ("{strategy: fsdp}", "does not support `fsdp`"),
    ],
)
def test_what_it_cannot_do_is_refused(placement: str, message: str) -> None:
    outcome = compile_stage(PPO % ("", f", placement: {placement}"), "{gpus: 8xH100-80GB}", SMALL)
    assert outcome.plan is None
    assert [message in found.message for found in outcome.diagnostics] == [True]


def test_two_models_are_trained_and_one_is_held() -> None:
    found = memory_terms()
    assert found["value weights"] == pytest.approx(found["weights"], rel=0.05)
    assert found["value optimizer"] == pytest.approx(found["optimizer"], rel=0.05)
    assert found["reference model"] == pytest.approx(found["weights"], rel=0.05)
    assert found["gradient buckets"] == pytest.approx(2 * found["weights"], rel=0.05)


def test_values_from_the_policy_s_own_layers_take_no_model() -> None:
    assert not any(name.startswith("value ") for name in memory_terms(", value_model: shared"))


def test_without_a_weight_on_the_divergence_there_is_no_reference() -> None:
    assert "reference model" not in memory_terms(", kl_coef: 0.0")


def test_under_an_adapter_the_weights_below_are_held_once() -> None:
    found = memory_terms(keys=LORA, model="Qwen/Qwen3-8B")
    assert "weights" in found
    assert "value weights" not in found
    assert "reference model" not in found
    assert found["value adapter"] == pytest.approx(found["adapter"])
