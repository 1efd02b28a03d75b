"""The policy acts: episodes in an environment take the place of completions.

What the environment said stands among the tokens, is read by the models, and is learnt from by neither.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.environments.playing import World
from posttrain.runtime.environments.sequences import Acted, Turns, played
from posttrain.runtime.models.ends import ends_of
from posttrain.runtime.models.length import context_of
from posttrain.runtime.ppo.turns import drawn
from posttrain.runtime.ppo.writing import Written, write_after


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The place that the policy acts in, and the seed that all its episodes follow from."""

    world: World
    seed: int


class Policy:
    """Has turns written by the policy. What is drawn depends on the seed and the number of the turn alone."""

    def __init__(
        self, model: Any, tokenizer: Any, sampling: Mapping[str, Any], seed: int, device: Any
    ) -> None:
        self.tokenizer = tokenizer
        self.ends = ends_of(model, tokenizer)
        self.longest: int = sampling["max_new_tokens"]
        self.context = context_of(model)
        self._model = model
        self._sampling = sampling
        self._seed = seed
        self._device = device
        self._turn = 0

    def write(self, given: list[list[int]], limit: int) -> Turns:
        seed = drawn(self._seed, "turn", self._turn)
        self._turn += 1
        sampling = {**self._sampling, "max_new_tokens": limit}
        found = write_after(self._model, self.tokenizer, given, sampling, seed, self._device)
        rows = zip(found.completions.tolist(), found.mask.sum(dim=1).long().tolist(), strict=True)
        return [row[:length] for row, length in rows], None


def act(
    stage: Stage, policy: Policy, rows: Sequence[Mapping[str, Any]], device: Any
) -> tuple[Written, list[dict[str, Any]]]:
    """Play an episode for each row; the tokens of all of them, and how each went."""
    told = played(stage.world, stage.seed, rows, [row["prompt"] for row in rows], policy)
    return _together(told.acted, policy.tokenizer.pad_token_id, device), told.outcomes


def _together(acted: Sequence[Acted], pad: int, device: Any) -> Written:
    """Episodes beside each other: prompts padded on the left, what followed on the right."""
    import torch

    before, after = max(len(one.prompt) for one in acted), max(len(one.tokens) for one in acted)
    tokens = torch.full((len(acted), before + after), pad)
    attention, mask = torch.zeros_like(tokens), torch.zeros(len(acted), after)
    for row, one in enumerate(acted):
        start, end = before - len(one.prompt), before + len(one.tokens)
        tokens[row, start:end] = torch.tensor(one.prompt + one.tokens)
        attention[row, start:end] = 1
        mask[row, : len(one.own)] = torch.tensor(one.own, dtype=mask.dtype)
    ended = torch.tensor([one.play.end != "length" for one in acted])
    return Written(tokens.to(device), attention.to(device), mask.to(device), ended.to(device))
