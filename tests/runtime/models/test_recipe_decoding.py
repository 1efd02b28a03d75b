"""The recipe determines decoding: nothing but end tokens comes from the model's generation config."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.runtime.small_tokenizers import small_tokenizer
from tests.runtime.test_prompt_tokenization import SAMPLING, tiny_model

from posttrain.runtime.engines.transformers_generator import generate
from posttrain.runtime.models.recipe_decoding import (
    discard_decoding,
    fill_sampling,
    model_settings,
    recipe_decoding,
    report_settings,
)
from posttrain.runtime.ppo.rollout_generation import generate_completions
from posttrain.spec.step_params.generation_params import SamplingOptions

# One value of every kind of field that changes decoding. The token 7 is the one that the model prefers.
FIELDS: dict[str, Any] = {
    "temperature": 0.01,
    "top_k": 1,
    "top_p": 0.1,
    "min_p": 0.9,
    "top_h": 0.1,
    "typical_p": 0.1,
    "epsilon_cutoff": 0.5,
    "eta_cutoff": 0.5,
    "repetition_penalty": 5.0,
    "no_repeat_ngram_size": 1,
    "bad_words_ids": [[7]],
    "sequence_bias": [[[7], -50.0]],
    "suppress_tokens": [7],
    "begin_suppress_tokens": [7],
    "forced_bos_token_id": 9,
    "forced_eos_token_id": 2,
    "exponential_decay_length_penalty": [1, 5.0],
    "min_length": 30,
    "min_new_tokens": 10,
    "num_beams": 3,
    "do_sample": True,
    "renormalize_logits": True,
    "remove_invalid_values": True,
    "guidance_scale": 3.0,
    "max_time": 0.0001,
}


def options(**changed: Any) -> SamplingOptions:
    """Sampling parameters: greedy, if `changed` does not say otherwise."""
    return SAMPLING.model_copy(update={"max_tokens": 10, **changed})


TEMPERED = options(temperature=1.0, n=4)
GREEDY = options()


@pytest.fixture(scope="module")
def model() -> Any:
    """A model that repeats itself: the output of token 7 is the likeliest, and the end is likely too."""
    made = tiny_model(small_tokenizer("adds_bos"))
    with torch.no_grad():
        made.lm_head.weight[7] = 3 * made.lm_head.weight[8]
    return made


def through_engine(model: Any, sampling: SamplingOptions) -> Any:
    tokenizer = small_tokenizer("adds_bos")
    return generate(model, tokenizer, ["1+2=", "11"], sampling, 1, lambda _done, _total: None)


def through_ppo(model: Any, _: Any) -> list[list[int]]:
    sampling = {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 10}
    tokenizer, device = small_tokenizer("adds_bos"), torch.device("cpu")
    return generate_completions(model, tokenizer, ["1+2="] * 4, sampling, 1, device).completions.tolist()


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    ("how", "sampling"), [(through_engine, GREEDY), (through_engine, TEMPERED), (through_ppo, None)]
)
def test_no_field_changes_the_completions(
    model: Any, field: str, how: Callable[[Any, Any], Any], sampling: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = how(model, sampling)
    monkeypatch.setattr(model.generation_config, field, FIELDS[field])
    assert how(model, sampling) == expected
    assert getattr(model.generation_config, field) == FIELDS[field], "the model is saved with its own config"


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_is_reported(model: Any, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model_settings(model) == {}
    monkeypatch.setattr(model.generation_config, field, FIELDS[field])
    assert model_settings(model) == {field: FIELDS[field]}


def test_the_end_tokens_of_the_model_still_end_a_completion(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = through_ppo(model, None)[0]
    monkeypatch.setattr(model.generation_config, "eos_token_id", [tokens[1], 2])
    (first, *_), _ = through_engine(model, options(n=1, temperature=0.0))
    with recipe_decoding(model):
        assert model.generation_config.eos_token_id == [tokens[1], 2]
    assert through_ppo(model, None)[0][: tokens.index(tokens[1]) + 1][-1] == tokens[1]
    assert first.finish in ("stop", "length")


def test_an_adapter_keeps_the_config_of_its_base(model: Any) -> None:
    from peft import LoraConfig, get_peft_model

    base = tiny_model(small_tokenizer("adds_bos"))
    base.generation_config.repetition_penalty = 5.0
    adapted = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"]))
    own = base.generation_config
    plain = tiny_model(small_tokenizer("adds_bos"))
    assert through_engine(adapted, GREEDY) == through_engine(plain, GREEDY)
    assert adapted.generation_config is own
    assert base.generation_config is own
    discard_decoding(adapted)
    assert model_settings(adapted) == {}


def test_the_config_is_restored_after_an_error(model: Any) -> None:
    own = model.generation_config
    with pytest.raises(KeyError), recipe_decoding(model):
        raise KeyError
    assert model.generation_config is own


def test_auto_takes_what_the_recipe_leaves_out(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    penalized = through_engine(model, options(repetition_penalty=5.0))
    assert penalized != through_engine(model, GREEDY)
    monkeypatch.setattr(model.generation_config, "repetition_penalty", 5.0)
    assert through_engine(model, options(model_defaults=("repetition_penalty",))) == penalized
    assert through_engine(model, options(model_defaults=("top_p",))) != penalized


def test_a_greedy_model_stays_greedy() -> None:
    sampling = options(model_defaults=("temperature", "top_p"))
    assert fill_sampling(sampling, {"temperature": 0.6, "top_p": 0.9}).temperature == 0.6
    assert fill_sampling(sampling, {"temperature": 0.6, "do_sample": False}).temperature == 0.0
    assert fill_sampling(sampling, {"top_k": 5}).top_k == 0, "the recipe sets it"


def test_a_step_records_what_it_does_not_apply() -> None:
    events: list[Any] = []
    context: Any = SimpleNamespace(
        facts={}, events=SimpleNamespace(emit=lambda kind, **fields: events.append((kind, fields)))
    )
    report_settings(context, "sft", {"top_k": 20, "repetition_penalty": 1.1}, ("top_k",))
    assert context.facts == {"ignored_generation_config.sft": {"repetition_penalty": 1.1}}
    (event,) = events
    assert "sft: not applied from generation_config.json: repetition_penalty: 1.1" in event[1]["name"]
    report_settings(context, "base", {})
    assert len(events) == 1
