"""Episodes instead of completions for TRL's GRPO trainer. Observations are masked out of the loss.

TRL passes only the prompts to `rollout_func`. A wrapper of the generation step captures their rows, which
episodes need.

    trl/trainer/grpo_trainer.py:2210 `GRPOTrainer._generate`: `output = self.rollout_func(prompts, self)`
"""

from collections.abc import Callable, Sequence
from typing import Any

from posttrain.runtime.environments.episode_tokens import EpisodeBatch
from posttrain.runtime.rewards.engine.batch import EPISODES

PlayFn = Callable[[Sequence[Any]], EpisodeBatch]


def patch_grpo_trainer(trainer: Any, play: PlayFn) -> None:
    """Patch a GRPO trainer to train on the episodes that `play` returns for rows."""
    original_generate = trainer._generate_and_score_completions
    # The rows of the current generation, one for each completion.
    current: list[dict[str, Any]] = []

    def generate_with_rows(rows: list[dict[str, Any]]) -> Any:
        current[:] = rows
        return original_generate(rows)

    def rollout(_prompts: list[Any], _trainer: Any) -> dict[str, Any]:
        return _rollout_fields(play(current))

    trainer._generate_and_score_completions = generate_with_rows
    trainer.rollout_func = rollout


def _rollout_fields(batch: EpisodeBatch) -> dict[str, Any]:
    return {
        "prompt_ids": [one.prompt for one in batch.episodes],
        "completion_ids": [one.tokens for one in batch.episodes],
        "logprobs": [one.logprobs for one in batch.episodes] if batch.has_logprobs else None,
        "env_mask": [one.model_mask for one in batch.episodes],
        EPISODES: batch.outcomes,
    }
