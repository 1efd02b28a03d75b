"""Keeps the model's `generation_config.json` out of the rollouts of GRPO and RLOO.

TRL passes `generate` a generation config, and transformers fills what is unset there from the model's:
`min_p`, suppressed tokens, beams, a minimum length. The completions would then not be samples of the policy.

    trl/trainer/grpo_trainer.py:1873 `GRPOTrainer._generate_single_turn`: `unwrapped_model.generate(`
    trl/trainer/rloo_trainer.py:1385 `RLOOTrainer._generate_single_turn`: `unwrapped_model.generate(`
"""

from typing import Any

from posttrain.runtime.models.recipe_decoding import recipe_decoding


def patch_decoding(trainer: Any) -> None:
    """Generate with the trainer's generation config alone."""
    original = trainer._generate_single_turn

    def generate(*args: Any, **kwargs: Any) -> Any:
        with recipe_decoding(trainer.model):
            return original(*args, **kwargs)

    trainer._generate_single_turn = generate
