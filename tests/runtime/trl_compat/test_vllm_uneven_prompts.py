"""Processes that share a vLLM engine with different numbers of prompts."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.trl_compat.fake_engine import FakeEngine, draws, fake_trainer
from tests.runtime.trl_compat.necessity import obsolete
from trl.generation import vllm_generation


def generate_in_second_process(monkeypatch: pytest.MonkeyPatch, own: list[list[int]]) -> Any:
    """TRL's completions in the second of two processes that share a server; the first has two prompts."""

    def gathered(mine: list[Any]) -> list[Any]:
        return [[1], [2], *mine] if mine == own else [None] * (2 + len(mine))

    def broadcast(payload: list[Any], from_process: int) -> None:
        payload[0] = ([[1], [2], *own], [[10], [20], *([30] for _ in own)], None, None)

    monkeypatch.setattr(vllm_generation, "gather_object", gathered)
    monkeypatch.setattr(vllm_generation, "broadcast_object_list", broadcast)
    engine: Any = object.__new__(vllm_generation.VLLMGeneration)
    vars(engine).update(
        mode="server",
        enable_sleep_mode=False,
        accelerator=SimpleNamespace(process_index=1, is_main_process=False),
        **dict.fromkeys(("temperature", "top_p", "top_k", "min_p", "repetition_penalty"), 1.0),
        max_completion_length=4,
    )
    return engine.generate(own, None, 1)[1]


def test_trl_mixes_up_the_completions_of_uneven_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    assert generate_in_second_process(monkeypatch, [[3], [4]]) == [[30], [30]]
    assert generate_in_second_process(monkeypatch, [[3]]) == [[20]], obsolete("vllm_uneven_prompts")


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
