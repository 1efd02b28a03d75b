"""Episodes in TRL's RLOO trainer: observations are masked out of the log-probabilities."""

from types import SimpleNamespace
from typing import Any

import torch
from tests.runtime.trl_compat.necessity import obsolete, parameters
from trl.trainer.rloo_trainer import RLOOTrainer

from posttrain.runtime.environments.episode_tokens import EpisodeBatch, TokenizedEpisode
from posttrain.runtime.rewards.engine.batch import EPISODES
from posttrain.runtime.trl_compat.rloo_episodes import patch_rloo_trainer


def test_the_trainer_takes_no_episodes() -> None:
    found = parameters(RLOOTrainer.__init__)
    assert not found & {"rollout_func", "environment_factory"}, obsolete("rloo_episodes")


def fake_trainer(seen: dict[str, Any]) -> Any:
    """The calls that TRL's trainer makes of its own methods, in their order."""
    made = SimpleNamespace(pad_to_multiple_of=None, accelerator=SimpleNamespace(device="cpu"))

    def generate(rows: Any) -> dict[str, Any]:
        seen["prompts"] = made._tokenize_prompts([])[0]
        seen["tokens"] = made._generate_single_turn([], None, {})
        seen["rows"] = made._calculate_rewards(rows)
        return {}

    def logps(*_: Any, **__: Any) -> Any:
        return torch.full((2, 3), -1.0), torch.full((2, 3), 2.0), None

    made._generate_and_score_completions = generate
    made._get_per_token_logps_and_entropies = logps
    made._calculate_rewards = lambda rows: rows
    made._compute_loss = lambda model, inputs: made._get_per_token_logps_and_entropies(
        model, None, torch.ones(2, 4), 3
    )
    return made


def test_the_trainer_gets_the_tokens_of_episodes_and_a_mask() -> None:
    state: Any = None
    episodes = [
        TokenizedEpisode(state=state, prompt=[1], max_tokens=3, tokens=[2, 3, 4], model_mask=[1, 0, 1]),
        TokenizedEpisode(state=state, prompt=[5], max_tokens=3, tokens=[6], model_mask=[1]),
    ]
    batch = EpisodeBatch(episodes, [{"score": 1.0}, {"score": 0.0}], has_logprobs=False)
    seen: dict[str, Any] = {}
    trainer = fake_trainer(seen)
    patch_rloo_trainer(trainer, lambda rows: batch)
    inputs = trainer._generate_and_score_completions([{"prompt": "a"}, {"prompt": "b"}])
    assert (seen["prompts"], seen["tokens"]) == ([[1], [5]], [[2, 3, 4], [6]])
    assert [row[EPISODES]["score"] for row in seen["rows"]] == [1.0, 0.0]
    logprobs, entropies, _ = trainer._compute_loss(None, inputs)
    assert logprobs.tolist() == [[-1.0, 0.0, -1.0], [-1.0, 0.0, 0.0]]
    assert float(entropies.sum()) / 6 == 2.0, "the mean over all tokens is that of the model's tokens"
