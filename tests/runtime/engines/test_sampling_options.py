"""The effect of every key of `sampling`, in each engine that supports it."""

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.engines.test_transformers_engine import DRAWN, GREEDY, TEXTS, written

from posttrain.runtime.engines.completion_log import CompletionLog
from posttrain.runtime.engines.engine_protocol import GenerationRequest
from posttrain.runtime.engines.http_generator import sampling_params as http_sampling
from posttrain.runtime.engines.providers import SamplingParams, build_request
from posttrain.runtime.engines.transformers_generator import TransformersGenerator
from posttrain.runtime.step_context import StopRequest
from posttrain.spec.declaration_fields import keys_of
from posttrain.spec.inference import Sampling
from posttrain.spec.step_params.generation_params import SamplingOptions


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(tiny_model), AutoTokenizer.from_pretrained(tiny_model)


def texts(writer: TransformersGenerator, sampling: dict[str, Any], seed: int = 5) -> list[list[str | None]]:
    return [[one.text for one in each] for each in written(writer, sampling, seed=seed)]


def test_these_tests_know_every_key() -> None:
    assert {*GREEDY, "seed", "generation_config"} == set(keys_of(Sampling))


def test_top_k_1_samples_what_greedy_decoding_takes(model: tuple[Any, Any]) -> None:
    writer = TransformersGenerator(*model)
    greedy = [each[0] for each in texts(writer, GREEDY)]
    assert texts(writer, {**DRAWN, "top_k": 1}) == [[one, one] for one in greedy]
    assert texts(writer, DRAWN) != [[one, one] for one in greedy]


def test_min_p_1_samples_what_greedy_decoding_takes(model: tuple[Any, Any]) -> None:
    writer = TransformersGenerator(*model)
    greedy = [each[0] for each in texts(writer, GREEDY)]
    assert texts(writer, {**DRAWN, "min_p": 1.0}) == [[one, one] for one in greedy]


def test_a_repetition_penalty_changes_greedy_text(model: tuple[Any, Any]) -> None:
    """The trained model repeats characters of the prompt; a strong penalty keeps it from some."""
    writer = TransformersGenerator(*model)
    assert texts(writer, {**GREEDY, "repetition_penalty": 2.0}) != texts(writer, GREEDY)


def test_the_models_own_generation_config_changes_nothing(model: tuple[Any, Any]) -> None:
    weights, tokenizer = model
    plain = texts(TransformersGenerator(weights, tokenizer), GREEDY)
    sampled = texts(TransformersGenerator(weights, tokenizer), DRAWN)
    own = weights.generation_config
    before = own.to_dict()
    own.repetition_penalty, own.top_k, own.min_p, own.temperature, own.do_sample = 2.0, 1, 0.9, 0.1, True
    try:
        assert texts(TransformersGenerator(weights, tokenizer), GREEDY) == plain
        assert texts(TransformersGenerator(weights, tokenizer), DRAWN) == sampled
    finally:
        own.update(**before)


def test_another_seed_samples_other_text(model: tuple[Any, Any]) -> None:
    writer = TransformersGenerator(*model)
    assert len(TEXTS) > 4
    assert texts(writer, DRAWN, seed=5) == texts(writer, DRAWN, seed=5)
    assert texts(writer, DRAWN, seed=5) != texts(writer, DRAWN, seed=6)


GIVEN = {"top_k": 5, "min_p": 0.05, "repetition_penalty": 1.1}


@pytest.mark.parametrize(
    ("provider", "fields"),
    [
        ("vllm", GIVEN),
        ("openrouter", GIVEN),
        ("anthropic", {"top_k": 5}),
    ],
)
def test_a_provider_is_sent_what_its_interface_has(provider: str, fields: dict[str, Any]) -> None:
    endpoint = {"provider": provider, "model": "m", "base_url": "http://localhost:1"}
    prompt = [{"role": "user", "content": "hi"}]
    given = SamplingParams(temperature=1.0, max_tokens=9, **GIVEN)
    body = build_request(endpoint, None, prompt, given).body
    assert {name: body[name] for name in fields} == fields


@pytest.mark.parametrize(
    ("provider", "fields"),
    [
        ("vllm", {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}),
        ("openrouter", {"temperature": 0.0}),
        ("openai", {"temperature": 0.0}),
        ("anthropic", {"temperature": 0.0}),
    ],
)
def test_a_vllm_server_fills_nothing_from_the_models_files(provider: str, fields: dict[str, Any]) -> None:
    """By default, it takes every parameter that a request leaves out from generation_config.json."""
    endpoint = {"provider": provider, "model": "m", "base_url": "http://localhost:1"}
    prompt = [{"role": "user", "content": "hi"}]
    body = build_request(endpoint, None, prompt, SamplingParams(temperature=0.0, max_tokens=9)).body
    assert {name: value for name, value in body.items() if name in {*GIVEN, "top_p", "temperature"}} == fields


@pytest.mark.parametrize("provider", ["vllm", "openai", "anthropic", "gemini"])
def test_auto_leaves_a_parameter_to_the_server(provider: str) -> None:
    prompts: list[Any] = [[{"role": "user", "content": "hi"}]]
    request = GenerationRequest(
        prompts=prompts,
        sampling=SamplingOptions(**GREEDY, model_defaults=("temperature", "top_p")),
        seed=1,
        log=CompletionLog(None, prompts, 1),
        progress=lambda _done, _total: None,
        stop=StopRequest(),
    )
    endpoint = {"provider": provider, "model": "m", "base_url": "http://localhost:1"}
    sampling = http_sampling(request, 0, 0)
    assert sampling.seed is not None, "the server may sample"
    body = build_request(endpoint, None, prompts[0], sampling).body
    named = {**body, **body.get("generationConfig", {})}
    assert not {"temperature", "top_p", "topP"} & named.keys()
    assert ("repetition_penalty" in named) == (provider == "vllm")


def test_gemini_is_sent_top_k_in_its_generation_config() -> None:
    endpoint = {"provider": "gemini", "model": "m", "base_url": "http://localhost:1"}
    given = SamplingParams(temperature=1.0, max_tokens=9, top_k=5)
    body = build_request(endpoint, None, [{"role": "user", "content": "hi"}], given).body
    assert body["generationConfig"]["topK"] == 5
