"""The arguments of vLLM, without vLLM itself; test_vllm_colocate.py runs vLLM."""

import pytest

from posttrain.compiler.checks.reserved_trl_args import reserved_args
from posttrain.compiler.checks.trl_args import config_arguments
from posttrain.runtime.distributed.vllm_rollouts import max_model_length, vllm_trainer_arguments
from posttrain.runtime.errors import StepError
from posttrain.spec.plan import Launch

COLOCATE = Launch(engine="vllm", rollouts={"mode": "colocate"})
SERVER = Launch(engine="vllm", rollouts={"mode": "server", "gpus": 1})


def test_vllm_has_room_for_the_longest_text_and_no_more() -> None:
    assert max_model_length(COLOCATE, 300, 200, 32768, grows=False) == 512
    assert max_model_length(COLOCATE, 256, 256, 32768, grows=False) == 512
    assert max_model_length(COLOCATE, 257, 256, 32768, grows=False) == 768
    assert max_model_length(COLOCATE, 900, 200, 1024, grows=False) == 1024
    assert max_model_length(COLOCATE, 300, 200, 32768, grows=True) == -1


def test_vllm_has_room_for_the_longest_text_of_an_evaluation() -> None:
    assert max_model_length(COLOCATE, 300, 200, 32768, grows=False, evaluated=1000) == 1024
    assert max_model_length(COLOCATE, 300, 200, 32768, grows=False, evaluated=100) == 512
    assert max_model_length(COLOCATE, 300, 200, 800, grows=False, evaluated=1000) == 800


@pytest.mark.parametrize(("launch", "prompt"), [(COLOCATE, 1024), (SERVER, 825)])
def test_a_prompt_that_vllm_would_refuse_is_told_at_once(launch: Launch, prompt: int) -> None:
    assert max_model_length(launch, prompt - 1, 200, 1024, grows=False) == 1024
    with pytest.raises(StepError, match=rf"the longest prompt \({prompt} tokens"):
        max_model_length(launch, prompt, 200, 1024, grows=False)


def test_trl_has_what_a_method_is_told() -> None:
    assert vllm_trainer_arguments(COLOCATE, {}, 512) == {"vllm_max_model_length": 512}
    assert vllm_trainer_arguments(SERVER, {}, 512) == {}
    without = COLOCATE.model_copy(update={"engine": "transformers"})
    assert vllm_trainer_arguments(without, {"loss_type": "vespo"}, 512) == {}
    arguments = vllm_trainer_arguments(COLOCATE, {"loss_type": "vespo"}, 512)
    assert arguments == {"vllm_max_model_length": 512, "vllm_importance_sampling_mode": "token_truncate"}
    assert arguments.keys() <= config_arguments("GRPOConfig").keys()
    assert "vllm_max_model_length" in config_arguments("RLOOConfig")


@pytest.mark.parametrize("kind", ["GRPOConfig", "RLOOConfig"])
def test_what_is_left_to_a_recipe_of_vllm_is_how_it_computes(kind: str) -> None:
    """The recipe must not change which engine generates, nor where."""
    left = {name for name in config_arguments(kind) if "vllm" in name} - reserved_args(kind)
    assert {name for name in left if "importance_sampling" not in name} == {
        "vllm_max_model_length",
        "vllm_model_impl",
        "vllm_structured_outputs_regex",
    }
