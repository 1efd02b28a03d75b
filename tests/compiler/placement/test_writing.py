"""What writes the completions of a stage: chosen, kept as it is written, refused."""

import pytest
from tests.compiler.placement.test_placement import GRPO, QLORA, compiled, found, placed

UNKNOWN = "someone/a-model"
PPO = GRPO.replace("train: grpo", "train: ppo").replace("prompts: 16, generations: 8", "batch: 64")


def stage(placement: str, more: str = "", method: str = GRPO) -> str:
    return method % ("", f"{more}, placement: {{rollouts: {{{placement}}}}}")


@pytest.mark.parametrize(
    ("placement", "method", "message"),
    [
        ("engine: transformers, mode: server", GRPO, "is a server of vLLM's, and transformers writes"),
        ("mode: server", PPO, "is a server of vLLM's, and transformers writes"),
        ("engine: vllm", PPO, "write `engine: transformers`, or leave it out"),
        ("gpus: 2", GRPO, "`gpus` are vLLM's own with `mode: server`"),
    ],
)
def test_what_cannot_write_is_refused_with_what_can(placement: str, method: str, message: str) -> None:
    outcome = compiled(stage(placement, method=method))
    assert outcome.plan is None
    assert [message in one.message for one in found(outcome)] == [True]


def test_weights_in_eight_bits_are_written_from_by_transformers() -> None:
    """TRL hands vLLM no weights that bitsandbytes keeps in 8 bits."""

    def in_eight(placement: str) -> str:
        return stage(placement, QLORA.replace("qlora", "lora"))

    model = "Qwen/Qwen3-8B, quantize: int8"
    assert placed(in_eight("engine: auto"), "{gpus: 1xH100-80GB}", model).launch.engine == "transformers"
    refused = compiled(in_eight("engine: vllm"), "{gpus: 1xH100-80GB}", model)
    assert any("no weights in 8 bits" in one.message for one in found(refused))


def test_what_the_recipe_says_of_vllm_holds_for_a_model_of_unknown_shape() -> None:
    """There is nothing to choose by, and what is given was not to be lost."""
    given = "mode: server, gpus: 2, utilisation: 0.7, tensor_parallel: 2"
    step = placed(stage(given), "{gpus: 4xH100-80GB}", UNKNOWN)
    assert step.launch.rollouts == {
        "mode": "server",
        "gpus": 2,
        "utilisation": 0.7,
        "tensor_parallel": 2,
        "sleep": None,
    }
    assert step.resources.gpus == 3
    plain = placed(stage("engine: transformers"), "{gpus: 4xH100-80GB}", UNKNOWN)
    assert plain.launch.rollouts == {}
