"""Tests the engine that generates completions: the choice, the settings of the recipe, and the errors."""

import pytest
from tests.compiler.placement.test_placement import GRPO, QLORA, compile_stage, diagnostics_of, placed_step

UNKNOWN = "someone/a-model"
PPO = GRPO.replace("train: grpo", "train: ppo").replace(
    "num_prompts: 16, num_generations: 8", "batch_size: 64"
)


def stage_with_rollouts(placement: str, more: str = "", method: str = GRPO) -> str:
    return method % ("", f"{more}, placement: {{rollouts: {{{placement}}}}}")


@pytest.mark.parametrize(
    ("placement", "method", "message"),
    [
        ("engine: transformers, mode: server", GRPO, "needs vLLM, but the engine is transformers"),
        ("mode: server", PPO, "needs vLLM, but the engine is transformers"),
        ("engine: vllm", PPO, "set `engine: transformers`, or remove the key"),
        ("gpus: 2", GRPO, "`gpus` needs `mode: server`"),
    ],
)
def test_what_cannot_write_is_refused_with_what_can(placement: str, method: str, message: str) -> None:
    outcome = compile_stage(stage_with_rollouts(placement, method=method))
    assert outcome.plan is None
    assert [message in one.message for one in diagnostics_of(outcome)] == [True]


def test_weights_in_eight_bits_are_written_from_by_transformers() -> None:
    """TRL cannot pass 8-bit bitsandbytes weights to vLLM."""

    def in_eight(placement: str) -> str:
        return stage_with_rollouts(placement, QLORA.replace("qlora", "lora"))

    model = "Qwen/Qwen3-8B, quantize: int8"
    assert placed_step(in_eight("engine: auto"), "{gpus: 1xH100-80GB}", model).launch.engine == "transformers"
    refused = compile_stage(in_eight("engine: vllm"), "{gpus: 1xH100-80GB}", model)
    assert any("does not support 8-bit weights" in one.message for one in diagnostics_of(refused))


def test_what_the_recipe_says_of_vllm_holds_for_a_model_of_unknown_shape() -> None:
    """Without a shape nothing is chosen, but the settings of the recipe apply."""
    given = "mode: server, gpus: 2, gpu_memory_utilization: 0.7, tensor_parallel_size: 2"
    step = placed_step(stage_with_rollouts(given), "{gpus: 4xH100-80GB}", UNKNOWN)
    assert step.launch.rollouts == {
        "mode": "server",
        "gpus": 2,
        "nodes": 0,
        "gpu_memory_utilization": 0.7,
        "tensor_parallel_size": 2,
        "enable_sleep_mode": None,
    }
    assert step.resources.gpus == 3
    plain = placed_step(stage_with_rollouts("engine: transformers"), "{gpus: 4xH100-80GB}", UNKNOWN)
    assert plain.launch.rollouts == {}
