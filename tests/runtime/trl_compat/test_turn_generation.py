"""The engine of a trainer as a generator of turns."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.trl_compat.necessity import obsolete, public_names
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_trainer import RLOOTrainer

from posttrain.runtime.trl_compat.turn_generation import TrainerGenerator


@pytest.mark.parametrize("trainer", [GRPOTrainer, RLOOTrainer])
def test_the_trainer_has_no_public_method_that_generates(trainer: type) -> None:
    assert public_names(trainer, "generat", "rollout") == set(), obsolete("turn_generation")


def fake_trainer(seen: list[Any], fails: bool) -> Any:
    made = SimpleNamespace(
        generation_config=SimpleNamespace(max_new_tokens=9), use_vllm=False, num_generations=4
    )

    def generate(prefixes: Any, *_: Any) -> Any:
        seen.append((made.generation_config.max_new_tokens, made.num_generations))
        if fails:
            raise RuntimeError("out of memory")
        return [[1] for _ in prefixes]

    made._generate_single_turn = generate
    return made


@pytest.mark.parametrize("fails", [False, True])
def test_the_limits_hold_for_a_turn_and_are_restored(fails: bool) -> None:
    seen: list[Any] = []
    trainer = fake_trainer(seen, fails)
    try:
        assert TrainerGenerator(trainer).generate([[5], [6]], 3) == ([[1], [1]], None)
    except RuntimeError:
        assert fails
    assert seen == [(3, 1)]
    assert (trainer.generation_config.max_new_tokens, trainer.num_generations) == (9, 4)
