"""In-loop evaluations generate with the vLLM engine of the trainer, with the weights of their step."""

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.engines.sampling_values import greedy_sampling
from tests.runtime.trl_compat.necessity import obsolete
from trl.generation.vllm_client import VLLMClient
from trl.generation.vllm_generation import VLLMGeneration

from posttrain.runtime.chat_prompts import Prompt
from posttrain.runtime.engines.completion_log import CompletionLog
from posttrain.runtime.engines.engine_protocol import GenerationRequest
from posttrain.runtime.step_context import StopRequest
from posttrain.runtime.training.inloop_generation import open_generator
from posttrain.runtime.trl_compat import vllm_evaluation
from posttrain.runtime.trl_compat.vllm_evaluation import open_rollout_engine
from posttrain.spec.plan import Launch
from posttrain.spec.step_params.generation_params import SamplingOptions

PROMPTS: list[Prompt] = ["1+2", "3+4"]


class Tokenizer:
    """One token for each character."""

    eos_token_id, pad_token_id = 1, 0
    chat_template = None

    def __call__(self, texts: Any, **_: Any) -> dict[str, Any]:
        one = [texts] if isinstance(texts, str) else texts
        rows = [[ord(character) for character in text] for text in one]
        masks = [[0] * len(row) for row in rows]
        if isinstance(texts, str):
            return {"input_ids": rows[0], "special_tokens_mask": masks[0]}
        return {"input_ids": rows, "special_tokens_mask": masks}

    def decode(self, tokens: list[int], skip_special_tokens: bool = True) -> str:
        return "".join(chr(token) for token in tokens if token > 1)


class Engine:
    """An engine that records what the evaluation does with it."""

    tensor_parallel_size = 1

    def __init__(self, mode: str = "colocate", sleep: bool = False) -> None:
        self.mode, self.enable_sleep_mode, self._llm_weights_sleeping = mode, sleep, sleep
        self.calls: list[Any] = []
        self.llm = self.vllm_client = self

    def sync_weights(self) -> None:
        self.calls.append("sync")
        self._llm_weights_sleeping = False

    def wake_up(self, tags: list[str]) -> None:
        self.calls.append(("wake", *tags))

    def sleep(self, level: int) -> None:
        self.calls.append(("sleep", level))

    def generate(self, prompts: Any, sampling: Any = None, use_tqdm: bool = False, **given: Any) -> Any:
        if self.mode == "server":
            self.calls.append(given)
            return {"completion_ids": [[55, 1]] * (len(prompts) * given["n"])}
        self.calls.append([params["seed"] for params in sampling])
        one = SimpleNamespace(text="7", token_ids=[55, 1], finish_reason="stop", stop_reason=1)
        return [SimpleNamespace(outputs=[one] * params["n"]) for params in sampling]


def a_trainer(engine: Engine, step: int = 4, loaded: int = 2) -> Any:
    config = SimpleNamespace(to_dict=lambda: {"eos_token_id": 1})
    return SimpleNamespace(
        vllm_generation=engine,
        model=SimpleNamespace(generation_config=config),
        state=SimpleNamespace(global_step=step),
        _last_loaded_step=loaded,
    )


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module vllm, which is not installed."""
    module = SimpleNamespace(
        SamplingParams=lambda **given: given, TokensPrompt=lambda **given: given["prompt_token_ids"]
    )
    monkeypatch.setattr(vllm_evaluation, "import_module", lambda _name: module)


def evaluate(trainer: Any, **options: Any) -> list[list[str | None]]:
    sampling = SamplingOptions(**greedy_sampling(**options))
    launch = Launch(engine="vllm", rollouts={"mode": trainer.vllm_generation.mode})
    with open_generator(trainer, Tokenizer(), launch) as generator:
        return [[one.text for one in row] for row in generator.generate(PROMPTS, sampling, 5)]


def test_trl_has_no_call_with_other_sampling_parameters() -> None:
    parameters = inspect.signature(VLLMGeneration.generate).parameters
    known = ["self", "prompts", "images", "num_generations", "profiler"]
    assert list(parameters) == known, obsolete("vllm_evaluation")
    sent = inspect.signature(VLLMClient.generate).parameters
    assert {"prompts", "n", "temperature", "max_tokens", "generation_kwargs"} <= sent.keys()


def test_the_engine_gets_the_weights_of_the_step_once() -> None:
    engine = Engine()
    trainer = a_trainer(engine)
    assert evaluate(trainer, n=2, temperature=1.0) == [["7", "7"], ["7", "7"]]
    assert trainer._last_loaded_step == 4
    assert evaluate(trainer) == [["7"], ["7"]]
    assert [call for call in engine.calls if call == "sync"] == ["sync"]
    seeds = engine.calls[1]
    assert len(set(seeds)) == 2, "each prompt has its own seed"


def test_an_engine_in_sleep_mode_is_woken_and_sleeps_again() -> None:
    engine = Engine(sleep=True)
    trainer = a_trainer(engine, step=4, loaded=4)  # the weights of this step have been discarded since
    evaluate(trainer)
    assert [engine.calls[0], engine.calls[1], engine.calls[-1]] == [
        "sync",
        ("wake", "kv_cache"),
        ("sleep", 2),
    ]
    assert engine._llm_weights_sleeping


def test_an_engine_that_fails_sleeps_again() -> None:
    engine = Engine(sleep=True)
    with pytest.raises(ValueError, match="stop"), open_rollout_engine(a_trainer(engine), Tokenizer()):
        raise ValueError("stop")
    assert engine.calls[-1] == ("sleep", 2)


def test_a_server_gets_the_parameters_of_the_eval() -> None:
    engine = Engine("server")
    assert evaluate(a_trainer(engine), n=2, temperature=0.7, stop=["x"], max_tokens=9) == [["7", "7"]] * 2
    assert engine.calls[0] == "sync"
    sent = engine.calls[1]
    assert (sent["n"], sent["temperature"], sent["max_tokens"]) == (2, 0.7, 9)
    assert sent["generation_kwargs"] == {
        "seed": 5,
        "stop": ["x"],
        "include_stop_str_in_output": True,
        "stop_token_ids": [1],
    }


@pytest.mark.parametrize(("rank", "expected"), [(0, 1), (1, 0)])
def test_only_rank_0_has_a_client_of_the_server(
    rank: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", str(rank))
    engine = Engine("server")
    with open_generator(a_trainer(engine), Tokenizer(), Launch(engine="vllm")) as generator:
        assert (generator.share is not None) == bool(expected)


def test_a_group_of_processes_generates_its_share_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    shares: list[Any] = []
    for rank in range(4):
        monkeypatch.setenv("RANK", str(rank))
        engine = Engine()
        engine.tensor_parallel_size = 2
        with open_generator(a_trainer(engine), Tokenizer(), Launch(engine="vllm", processes=4)) as generator:
            share = generator.share
            assert share is not None
            shares.append((share.index, share.count))
    assert shares == [(0, 2), (0, 2), (1, 2), (1, 2)]


def test_a_request_to_the_server_has_a_limited_number_of_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_evaluation, "_PROMPTS_PER_CALL", 1)
    engine = Engine("server")
    log = CompletionLog(None, PROMPTS, 1)
    request = GenerationRequest(
        prompts=PROMPTS,
        sampling=SamplingOptions(**greedy_sampling()),
        seed=5,
        log=log,
        progress=lambda _done, _total: None,
        stop=StopRequest(),
    )
    vllm_evaluation.ServerGenerator(engine, Tokenizer(), {"eos_token_id": 1}).fill_log(request)
    assert len(engine.calls) == 2
    assert [[one.text for one in row] for row in log.all()] == [["7"], ["7"]]
