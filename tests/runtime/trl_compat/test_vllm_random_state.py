"""What vLLM samples depends on the seed, the step and the process only."""

import inspect
import random
from typing import Any

import numpy as np
import pytest
import torch
from tests.runtime.trl_compat.fake_engine import FakeEngine, draws, fake_trainer
from tests.runtime.trl_compat.necessity import obsolete
from trl.generation.vllm_generation import VLLMGeneration
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_trainer import RLOOTrainer

from posttrain.runtime.errors import StepError


def random_states() -> tuple[Any, ...]:
    arrays: Any = np.random.get_state()
    return random.getstate(), arrays[1].tolist(), torch.get_rng_state().tolist()


def test_trl_starts_vllm_with_the_rank_as_its_seed() -> None:
    start = inspect.getsource(VLLMGeneration._init_vllm)
    assert "seed=accelerator.process_index //" in start, obsolete("vllm_random_state")
    later = "".join(inspect.getsource(one) for one in (GRPOTrainer, RLOOTrainer, VLLMGeneration.generate))
    assert "fork_rng" not in later, obsolete("vllm_random_state")


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


def test_processes_that_share_an_engine_draw_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def gathered(own: list[int]) -> list[int]:
        return own * 2

    monkeypatch.setattr("accelerate.utils.gather_object", gathered)
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


def test_one_seed_for_all_completions_is_refused() -> None:
    with pytest.raises(StepError, match="would make all completions of a prompt identical"):
        fake_trainer(FakeEngine(seed=5))
