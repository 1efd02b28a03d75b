"""Generates the turns of episodes with the engine of a TRL trainer.

TRL's trainers generate only with a private method, which takes the length limit and the number of completions
from the trainer. Both are set for each turn, and restored.

    trl/trainer/grpo_trainer.py:1763 `GRPOTrainer._generate_single_turn`: `def _generate_single_turn(`
    trl/trainer/rloo_trainer.py:1294 `RLOOTrainer._generate_single_turn`: `def _generate_single_turn(`
"""

from collections.abc import Sequence
from typing import Any

from posttrain.runtime.environments.episode_tokens import GeneratedTurns
from posttrain.runtime.models.context_length import context_length


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
