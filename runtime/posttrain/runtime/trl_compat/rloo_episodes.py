"""Episodes for TRL's RLOO trainer, which supports only single-turn completions.

The episodes replace the trainer's tokenized prompts and generated completions. The log-probabilities of
observation tokens are set to zero, so that the trainer's sums over a completion (the ratio, the loss and the
KL divergence) include only the tokens that the model generated. The model still attends to all tokens. GRPO's
trainer takes episodes through its `rollout_func` (`grpo_episodes.py`).

    trl/trainer/rloo_trainer.py:1404 `RLOOTrainer._generate`: `def _generate(self, prompts: list):`
    trl/trainer/rloo_trainer.py:1794 `RLOOTrainer._compute_loss`: `def _compute_loss(self, model, inputs):`
"""

from typing import Any

from posttrain.runtime.environments.episode_tokens import EpisodeBatch
from posttrain.runtime.rewards.engine.batch import EPISODES
from posttrain.runtime.trl_compat.grpo_episodes import PlayFn

_MODEL_MASK_KEY = "own"  # key in the trainer's batch: 1 for each token that the model generated


def patch_rloo_trainer(trainer: Any, play: PlayFn) -> None:
    """Patch an RLOO trainer to train on the episodes that `play` returns for rows."""
    _RlooEpisodes(trainer, play)


class _RlooEpisodes:
    def __init__(self, trainer: Any, play: PlayFn) -> None:
        self._trainer = trainer
        self._play = play
        self._batch = EpisodeBatch([], [], False)
        # The mask of the completions whose log-probabilities are computed next.
        self._model_mask: Any = None
        self._original_generate = trainer._generate_and_score_completions
        self._original_logps = trainer._get_per_token_logps_and_entropies
        self._original_rewards = trainer._calculate_rewards
        self._original_loss = trainer._compute_loss
        trainer._generate_and_score_completions = self._generate_and_score
        trainer._tokenize_prompts = self._tokenize_prompts
        trainer._generate_single_turn = self._generate_single_turn
        trainer._get_per_token_logps_and_entropies = self._masked_logps
        trainer._calculate_rewards = self._calculate_rewards
        trainer._compute_loss = self._compute_loss

    def _generate_and_score(self, rows: list[dict[str, Any]]) -> Any:
        self._batch = self._play(rows)
        self._model_mask = self._padded_model_mask()
        return {**self._original_generate(rows), _MODEL_MASK_KEY: self._model_mask}

    def _tokenize_prompts(self, *_: Any) -> tuple[list[list[int]], None, dict[str, Any]]:
        return [one.prompt for one in self._batch.episodes], None, {}

    def _generate_single_turn(self, *_: Any) -> list[list[int]]:
        return [one.tokens for one in self._batch.episodes]

    def _padded_model_mask(self) -> Any:
        """The mask, padded in the same way as the trainer pads completions."""
        import torch
        from trl.trainer.utils import pad

        masks = [torch.tensor(one.model_mask, dtype=torch.float32) for one in self._batch.episodes]
        padded = pad(masks, padding_side="right", pad_to_multiple_of=self._trainer.pad_to_multiple_of)
        return padded.to(self._trainer.accelerator.device)

    def _calculate_rewards(self, rows: list[dict[str, Any]], *args: Any) -> Any:
        pairs = zip(rows, self._batch.outcomes, strict=True)
        return self._original_rewards([{**row, EPISODES: outcome} for row, outcome in pairs], *args)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        self._model_mask = inputs[_MODEL_MASK_KEY]
        return self._original_loss(model, inputs)

    def _masked_logps(
        self, model: Any, tokens: Any, attention: Any, count: int, *args: Any, **kwargs: Any
    ) -> Any:
        """Log-probabilities with zeros for observations. Entropies are rescaled, so that their mean is over
        the model's tokens."""
        logprobs, entropies, rest = self._original_logps(model, tokens, attention, count, *args, **kwargs)
        if entropies is not None:
            counted = attention[:, -count:].to(self._model_mask.dtype)
            share = counted.sum() / (counted * self._model_mask).sum().clamp(min=1.0)
            entropies = entropies * self._model_mask * share
        return logprobs * self._model_mask, entropies, rest
