"""Episodes in place of completions, for TRL's trainers: what the model was told is kept out of the loss.

TRL hands GRPO's `rollout_func` the prompts alone. The rows that they stand in, which episodes begin with,
are taken on their way to it. RLOO's trainer has no such door: `leave_one_out.py` makes one.
"""

from collections.abc import Sequence
from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.environments.leave_one_out import act_leave_one_out
from posttrain.runtime.environments.opening import declared, opened
from posttrain.runtime.environments.playing import World
from posttrain.runtime.environments.sequences import Told, Turns, played
from posttrain.runtime.models.length import context_of
from posttrain.runtime.rewards.batch import EPISODES


def act(context: Context, trainer: Any) -> None:
    """Have the trainer learn from episodes, where the stage names an environment."""
    if declared(context) is None:
        return
    rollouts = Rollouts(opened(context), context.params["seed"], TrainersEngine(trainer))
    if not hasattr(trainer, "rollout_func"):
        act_leave_one_out(trainer, rollouts.play)
        return
    generate = trainer._generate_and_score_completions

    def with_rows(rows: list[dict[str, Any]]) -> Any:
        rollouts.rows = rows
        return generate(rows)

    trainer._generate_and_score_completions = with_rows
    trainer.rollout_func = rollouts


class Rollouts:
    def __init__(self, world: World, seed: int, engine: "TrainersEngine") -> None:
        self._world = world
        self._seed = seed
        self._engine = engine
        # Those of the generation under way, one for each completion.
        self.rows: list[dict[str, Any]] = []

    def play(self, rows: Sequence[Any], prompts: Sequence[Any]) -> Told:
        return played(self._world, self._seed, rows, prompts, self._engine)

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        told = self.play(self.rows, prompts)
        return {
            "prompt_ids": [one.prompt for one in told.acted],
            "completion_ids": [one.tokens for one in told.acted],
            "logprobs": [one.chances for one in told.acted] if told.weighed else None,
            "env_mask": [one.own for one in told.acted],
            EPISODES: told.outcomes,
        }


class TrainersEngine:
    """What a trainer of TRL's writes its completions with."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        # As it is now: RLOO's has another one put in its place.
        self._write = trainer._generate_single_turn

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
        return context_of(self._trainer.model)

    def write(self, given: list[list[int]], limit: int) -> Turns:
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
                return self._write(given, None, {}, 1)
            trainer.num_generations = 1  # each of these is a beginning of its own
            return self._write(given, None, {}), None
        finally:
            setattr(engine, name, before)
            trainer.num_generations = group
