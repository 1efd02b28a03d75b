"""Rollouts in an environment, with episodes instead of completions.

The tokens of an episode include the observations. The models read them but are not trained on them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.chat_prompts import row_prompt
from posttrain.runtime.environments.episode_runner import EnvironmentSession
from posttrain.runtime.environments.episode_tokens import GeneratedTurns, TokenizedEpisode, run_token_episodes
from posttrain.runtime.models.context_length import context_length
from posttrain.runtime.models.eos_tokens import eos_token_ids
from posttrain.runtime.ppo.rollout_generation import GeneratedCompletions, generate_after
from posttrain.runtime.ppo.rollout_schedule import derive_seed


@dataclass(frozen=True, kw_only=True)
class EpisodeSetup:
    """The environment that the policy acts in, and the base seed of its episodes."""

    world: EnvironmentSession
    seed: int


class TurnGenerator:
    """Generates turns with the policy. Sampling depends only on the seed and the number of the turn."""

    def __init__(
        self, model: Any, tokenizer: Any, sampling: Mapping[str, Any], seed: int, device: Any
    ) -> None:
        self.tokenizer = tokenizer
        self.ends = eos_token_ids(model, tokenizer)
        self.longest: int = sampling["max_new_tokens"]
        self.context = context_length(model)
        self._model = model
        self._sampling = sampling
        self._seed = seed
        self._device = device
        self._turn = 0

    def generate(self, prefixes: list[list[int]], limit: int) -> GeneratedTurns:
        seed = derive_seed(self._seed, "turn", self._turn)
        self._turn += 1
        sampling = {**self._sampling, "max_new_tokens": limit}
        turns = generate_after(self._model, self.tokenizer, prefixes, sampling, seed, self._device)
        rows = zip(turns.completions.tolist(), turns.mask.sum(dim=1).long().tolist(), strict=True)
        return [row[:length] for row, length in rows], None


def rollout_episodes(
    setup: EpisodeSetup, policy: TurnGenerator, rows: Sequence[Mapping[str, Any]], device: Any
) -> tuple[GeneratedCompletions, list[dict[str, Any]]]:
    """Run an episode for each row. Returns the tokens of all episodes, and the outcome of each."""
    played = run_token_episodes(setup.world, setup.seed, rows, [row_prompt(row) for row in rows], policy)
    return _pad_episodes(played.episodes, policy.tokenizer.pad_token_id, device), played.outcomes


def _pad_episodes(episodes: Sequence[TokenizedEpisode], pad: int, device: Any) -> GeneratedCompletions:
    """Combine episodes to one batch: prompts padded on the left, the tokens after them on the right."""
    import torch

    before, after = max(len(one.prompt) for one in episodes), max(len(one.tokens) for one in episodes)
    tokens = torch.full((len(episodes), before + after), pad)
    attention, mask = torch.zeros_like(tokens), torch.zeros(len(episodes), after)
    for row, one in enumerate(episodes):
        start, end = before - len(one.prompt), before + len(one.tokens)
        tokens[row, start:end] = torch.tensor(one.prompt + one.tokens)
        attention[row, start:end] = 1
        mask[row, : len(one.model_mask)] = torch.tensor(one.model_mask, dtype=mask.dtype)
    ended = torch.tensor([one.state.end != "length" for one in episodes])
    return GeneratedCompletions(tokens.to(device), attention.to(device), mask.to(device), ended.to(device))
