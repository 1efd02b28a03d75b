"""Episodes for TRL's RLOO trainer, which knows completions of one turn alone.

They go in where it turns prompts into tokens and has completions written; the tokens that the model was
told are taken out where it computes log-probabilities. Without those, its sums over a completion are sums
over what the model said: the ratio, the loss and the divergence. The model still reads all of it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from posttrain.runtime.environments.sequences import Told
from posttrain.runtime.rewards.batch import EPISODES

_OWN = "own"  # beside the completions that the trainer holds: 1 on the model's own tokens
Play = Callable[[Sequence[Any], Sequence[Any]], Told]


def act_leave_one_out(trainer: Any, play: Play) -> None:
    """Have an RLOO trainer learn from the episodes that `play` plays for rows and their prompts."""
    _Episodes(trainer, play)


class _Episodes:
    def __init__(self, trainer: Any, play: Play) -> None:
        self._trainer = trainer
        self._play = play
        self._told = Told([], [], False)
        # Of the completions whose log-probabilities are computed next.
        self._own: Any = None
        self._generate = trainer._generate_and_score_completions
        self._weigh = trainer._get_per_token_logps_and_entropies
        self._reward = trainer._calculate_rewards
        self._loss = trainer._compute_loss
        trainer._generate_and_score_completions = self._generated
        trainer._tokenize_prompts = self._tokenized
        trainer._generate_single_turn = self._written
        trainer._get_per_token_logps_and_entropies = self._weighed
        trainer._calculate_rewards = self._rewarded
        trainer._compute_loss = self._lost

    def _generated(self, rows: list[dict[str, Any]]) -> Any:
        self._told = self._play(rows, [row["prompt"] for row in rows])
        self._own = self._marks()
        return {**self._generate(rows), _OWN: self._own}

    def _tokenized(self, *_: Any) -> tuple[list[list[int]], None, dict[str, Any]]:
        return [one.prompt for one in self._told.acted], None, {}

    def _written(self, *_: Any) -> list[list[int]]:
        return [one.tokens for one in self._told.acted]

    def _marks(self) -> Any:
        """As the trainer pads the completions themselves."""
        import torch
        from trl.trainer.utils import pad

        marks = [torch.tensor(one.own, dtype=torch.float32) for one in self._told.acted]
        found = pad(marks, padding_side="right", pad_to_multiple_of=self._trainer.pad_to_multiple_of)
        return found.to(self._trainer.accelerator.device)

    def _rewarded(self, rows: list[dict[str, Any]], *given: Any) -> Any:
        pairs = zip(rows, self._told.outcomes, strict=True)
        return self._reward([{**row, EPISODES: told} for row, told in pairs], *given)

    def _lost(self, model: Any, inputs: dict[str, Any]) -> Any:
        self._own = inputs[_OWN]
        return self._loss(model, inputs)

    def _weighed(self, model: Any, tokens: Any, attention: Any, count: int, *given: Any, **more: Any) -> Any:
        """Zero on what the model was told. The mean of the entropies stays one over its own tokens."""
        logprobs, entropies, rest = self._weigh(model, tokens, attention, count, *given, **more)
        if entropies is not None:
            counted = attention[:, -count:].to(self._own.dtype)
            share = counted.sum() / (counted * self._own).sum().clamp(min=1.0)
            entropies = entropies * self._own * share
        return logprobs * self._own, entropies, rest
