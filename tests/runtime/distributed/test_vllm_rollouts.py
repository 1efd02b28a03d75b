"""The arguments and random state of vLLM, without vLLM itself; test_vllm_colocate.py runs vLLM."""

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

from posttrain.compiler.checks.reserved_trl_args import reserved_args
from posttrain.compiler.checks.trl_args import config_arguments
from posttrain.runtime.distributed.vllm_rollouts import (
    max_model_length,
    patch_vllm_generation,
    save_tokenizer_beside_weights,
    vllm_trainer_arguments,
)
from posttrain.runtime.distributed.vllm_weight_sync import merged_weights
from posttrain.runtime.errors import StepError
from posttrain.spec.plan import Launch

COLOCATE = Launch(engine="vllm", rollouts={"mode": "colocate"})
SERVER = Launch(engine="vllm", rollouts={"mode": "server", "gpus": 1})


class FakeEngine:
    """Samples from the random state of the process, as vLLM does."""

    def __init__(self, mode: str = "colocate", parallel: int = 1, **generation_kwargs: Any) -> None:
        self.mode, self.tensor_parallel_size, self.generation_kwargs = mode, parallel, generation_kwargs
        self.model: Any = torch.nn.Linear(1, 1)
        self.accelerator = SimpleNamespace(state=SimpleNamespace(distributed_type="NO"))

    def generate(self, prompts: Any, images: Any, num_generations: int, profiler: Any) -> tuple[Any, ...]:
        drawn = [[*np.random.randint(1000, size=2).tolist(), int(torch.randint(1000, ()))] for _ in prompts]
        return prompts, drawn, None, None


def fake_trainer(engine: FakeEngine, seed: int = 3, step: int = 0, process: int = 0) -> Any:
    made = SimpleNamespace(
        vllm_generation=engine,
        args=SimpleNamespace(seed=seed),
        eos_token_ids=[1, 7],
        state=SimpleNamespace(global_step=step),
        accelerator=SimpleNamespace(process_index=process),
    )
    patch_vllm_generation(made)
    return made


def draws(made: Any, count: int = 2) -> Any:
    return made.vllm_generation.generate(prompts=[[5]] * count, images=None, num_generations=1)[1]


def random_states() -> tuple[Any, ...]:
    arrays: Any = np.random.get_state()
    return random.getstate(), arrays[1].tolist(), torch.get_rng_state().tolist()


def test_what_is_drawn_depends_on_the_seed_the_step_the_turn_and_the_process_alone() -> None:
    one = fake_trainer(FakeEngine())
    first, second = draws(one), draws(one)
    torch.rand(9)
    assert [draws(fake_trainer(FakeEngine())), first != second] == [first, True]
    others = [
        fake_trainer(FakeEngine(), seed=4),
        fake_trainer(FakeEngine(), step=2),
        fake_trainer(FakeEngine(), process=1),
    ]
    found = [first, second, *(draws(other) for other in others)]
    assert len({str(one) for one in found}) == 5
    one.state.global_step = 2
    assert draws(one) == draws(fake_trainer(FakeEngine(), step=2))


def test_processes_that_share_an_engine_draw_the_same() -> None:
    pair = [draws(fake_trainer(FakeEngine(parallel=2), process=process)) for process in (0, 1, 2)]
    assert pair[0] == pair[1] != pair[2]


def test_the_trainer_s_own_state_is_as_it_was() -> None:
    made = fake_trainer(FakeEngine())
    before = random_states()
    draws(made)
    assert random_states() == before


def test_the_trainer_has_the_state_that_it_gave_itself_before_vllm_set_another() -> None:
    torch.manual_seed(0)
    fake_trainer(FakeEngine(), seed=11)
    assert torch.initial_seed() == 11


def test_texts_end_where_the_trainer_says_unless_the_recipe_says_otherwise() -> None:
    assert fake_trainer(FakeEngine()).vllm_generation.generation_kwargs == {"stop_token_ids": [1, 7]}
    given = fake_trainer(FakeEngine(stop_token_ids=[2], top_p=0.5)).vllm_generation.generation_kwargs
    assert given == {"stop_token_ids": [2], "top_p": 0.5}


def test_one_seed_for_all_completions_is_refused() -> None:
    with pytest.raises(StepError, match="would make all completions of a prompt identical"):
        fake_trainer(FakeEngine(seed=5))


def test_shares_of_one_engine_are_made_even_and_cut_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In an environment, the processes can have different numbers of unfinished episodes."""
    seen: list[int] = []
    engine: Any = FakeEngine(mode="server")
    write = engine.generate

    def counted(prompts: Any, *rest: Any) -> Any:
        seen.append(len(prompts))
        return write(prompts, *rest)

    def gathered(own: list[int]) -> list[int]:
        return [*own, 5]

    engine.generate = counted
    monkeypatch.setattr("accelerate.utils.gather_object", gathered)
    assert len(draws(fake_trainer(engine), 2)) == 2
    assert seen == [5]


def test_other_trainers_are_left_alone() -> None:
    patch_vllm_generation(SimpleNamespace())


def test_weights_that_the_stage_has_merged_get_a_tokenizer_and_products_none(tmp_path: Path) -> None:
    saved: list[Path] = []
    tokenizer = SimpleNamespace(save_pretrained=saved.append)
    scratch, merged, product = tmp_path / "scratch", tmp_path / "scratch" / "merged", tmp_path / "store"
    for folder in (merged, product):
        save_tokenizer_beside_weights(SimpleNamespace(name_or_path=str(folder)), tokenizer, scratch)
    assert saved == [merged]


def test_vllm_has_room_for_the_longest_text_and_no_more() -> None:
    assert max_model_length(COLOCATE, 300, 200, 32768, grows=False) == 512
    assert max_model_length(COLOCATE, 255, 256, 32768, grows=False) == 512
    assert max_model_length(COLOCATE, 256, 256, 32768, grows=False) == 768
    assert max_model_length(COLOCATE, 900, 200, 1024, grows=False) == 1024
    assert max_model_length(COLOCATE, 300, 200, 32768, grows=True) == -1


@pytest.mark.parametrize(("launch", "prompt"), [(COLOCATE, 1024), (SERVER, 824)])
def test_a_prompt_that_vllm_would_refuse_is_told_at_once(launch: Launch, prompt: int) -> None:
    assert max_model_length(launch, prompt - 1, 200, 1024, grows=False) == 1024
    with pytest.raises(StepError, match=rf"the longest prompt \({prompt} tokens"):
        max_model_length(launch, prompt, 200, 1024, grows=False)


def test_trl_has_what_a_method_is_told() -> None:
    assert vllm_trainer_arguments(COLOCATE, {}, 512) == {"vllm_max_model_length": 512}
    assert vllm_trainer_arguments(SERVER, {}, 512) == {}
    assert vllm_trainer_arguments(replace(COLOCATE, engine="transformers"), {"loss_type": "vespo"}, 512) == {}
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_under_an_adapter_are_handed_on_merged_and_stay_as_they_are(dtype: torch.dtype) -> None:
    sizes: Any = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 12}
    shape = Qwen2Config(num_attention_heads=2, num_key_value_heads=2, **sizes)
    base: Any = Qwen2ForCausalLM(shape)
    base = base.to(dtype)
    names = {name for name, _ in base.named_parameters()}
    config = LoraConfig(r=4, target_modules=["q_proj", "up_proj"], modules_to_save=["lm_head"])
    model: Any = get_peft_model(base, config)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    found = dict(merged_weights(model))
    assert found.keys() == names
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())
    whole = model.merge_and_unload()
    assert all(torch.equal(weight, found[name]) for name, weight in whole.named_parameters())
