"""Episodes instead of completions for TRL's trainers. Observations are masked out of the loss.

TRL passes only the prompts to GRPO's `rollout_func`, so a wrapper of the generation step captures their rows,
which episodes need. The RLOO trainer has no `rollout_func`: `rloo_rollouts.py` patches it.
"""

from collections.abc import Sequence
from typing import Any

from posttrain.runtime.environments.environment_factory import environment_config, open_environment
from posttrain.runtime.environments.episode_runner import EnvironmentSession
from posttrain.runtime.environments.episode_tokens import EpisodeBatch, GeneratedTurns, run_token_episodes
from posttrain.runtime.environments.rloo_rollouts import patch_rloo_trainer
from posttrain.runtime.models.context_length import context_length
from posttrain.runtime.rewards.engine.batch import EPISODES
from posttrain.runtime.step_context import StepContext


def patch_trl_trainer(context: StepContext, trainer: Any) -> None:
    """Patch the trainer to train on episodes, if the stage has an environment."""
    if environment_config(context) is None:
        return
    rollouts = EpisodeRollouts(open_environment(context), context.params["seed"], TrainerGenerator(trainer))
    if not hasattr(trainer, "rollout_func"):
        patch_rloo_trainer(trainer, rollouts.play)
        return
    generate = trainer._generate_and_score_completions

    def generate_with_rows(rows: list[dict[str, Any]]) -> Any:
        rollouts.rows = rows
        return generate(rows)

    trainer._generate_and_score_completions = generate_with_rows
    trainer.rollout_func = rollouts


class EpisodeRollouts:
    def __init__(self, session: EnvironmentSession, seed: int, engine: "TrainerGenerator") -> None:
        self._session = session
        self._seed = seed
        self._engine = engine
        # The rows of the current generation, one for each completion.
        self.rows: list[dict[str, Any]] = []

    def play(self, rows: Sequence[Any], prompts: Sequence[Any]) -> EpisodeBatch:
        return run_token_episodes(self._session, self._seed, rows, prompts, self._engine)

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        batch = self.play(self.rows, prompts)
        return {
            "prompt_ids": [one.prompt for one in batch.episodes],
            "completion_ids": [one.tokens for one in batch.episodes],
            "logprobs": [one.logprobs for one in batch.episodes] if batch.has_logprobs else None,
            "env_mask": [one.model_mask for one in batch.episodes],
            EPISODES: batch.outcomes,
        }


class TrainerGenerator:
    """Generates turns with the engine of a TRL trainer."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        # The original method: the patch of the RLOO trainer replaces it.
        self._generate_single_turn = trainer._generate_single_turn

    @property
    def tokenizer(self) -> Any:
        return self._trainer._tokenizer

    @property
    def ends(self) -> Sequence[int]:
        return self._trainer.eos_token_ids

    @property
    def longest(self) -> int:
        return self._trainer.max_completion_length

    @property
    def context(self) -> int:
        return context_length(self._trainer.model)

    def generate(self, prefixes: list[list[int]], limit: int) -> GeneratedTurns:
        trainer = self._trainer
        engine, name = (
            (trainer.vllm_generation, "max_completion_length")
            if trainer.use_vllm
            else (trainer.generation_config, "max_new_tokens")
        )
        original_limit, num_generations = getattr(engine, name), trainer.num_generations
        setattr(engine, name, limit)
        try:
            if hasattr(trainer, "rollout_func"):
                return self._generate_single_turn(prefixes, None, {}, 1)
            trainer.num_generations = 1  # each prefix gets one completion
            return self._generate_single_turn(prefixes, None, {}), None
        finally:
            setattr(engine, name, original_limit)
            trainer.num_generations = num_generations
