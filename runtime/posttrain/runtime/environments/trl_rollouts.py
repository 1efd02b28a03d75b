"""Episodes in place of completions, for TRL's trainers: what the model was told is kept out of the loss.

TRL hands GRPO's `rollout_func` the prompts alone. The rows that they stand in, which episodes begin with,
are taken on their way to it. RLOO's trainer has no such door: `rloo_rollouts.py` makes one.
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
    """Have the trainer learn from episodes, where the stage names an environment."""
    if environment_config(context) is None:
        return
    rollouts = EpisodeRollouts(open_environment(context), context.params["seed"], TrainerGenerator(trainer))
    if not hasattr(trainer, "rollout_func"):
        patch_rloo_trainer(trainer, rollouts.play)
        return
    generate = trainer._generate_and_score_completions

    def with_rows(rows: list[dict[str, Any]]) -> Any:
        rollouts.rows = rows
        return generate(rows)

    trainer._generate_and_score_completions = with_rows
    trainer.rollout_func = rollouts


class EpisodeRollouts:
    def __init__(self, world: EnvironmentSession, seed: int, engine: "TrainerGenerator") -> None:
        self._world = world
        self._seed = seed
        self._engine = engine
        # Those of the generation under way, one for each completion.
        self.rows: list[dict[str, Any]] = []

    def play(self, rows: Sequence[Any], prompts: Sequence[Any]) -> EpisodeBatch:
        return run_token_episodes(self._world, self._seed, rows, prompts, self._engine)

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        told = self.play(self.rows, prompts)
        return {
            "prompt_ids": [one.prompt for one in told.episodes],
            "completion_ids": [one.tokens for one in told.episodes],
            "logprobs": [one.logprobs for one in told.episodes] if told.has_logprobs else None,
            "env_mask": [one.model_mask for one in told.episodes],
            EPISODES: told.outcomes,
        }


class TrainerGenerator:
    """What a trainer of TRL's writes its completions with."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        # As it is now: RLOO's has another one put in its place.
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

    def generate(self, given: list[list[int]], limit: int) -> GeneratedTurns:
        trainer = self._trainer
        engine, name = (
            (trainer.vllm_generation, "max_completion_length")
            if trainer.use_vllm
            else (trainer.generation_config, "max_new_tokens")
        )
        before, group = getattr(engine, name), trainer.num_generations
        setattr(engine, name, limit)
        try:
            if hasattr(trainer, "rollout_func"):
                return self._generate_single_turn(given, None, {}, 1)
            trainer.num_generations = 1  # each of these is a beginning of its own
            return self._generate_single_turn(given, None, {}), None
        finally:
            setattr(engine, name, before)
            trainer.num_generations = group
