"""Gives the log-probabilities of GRPO and RLOO the positions that start after the padding of a prompt.

TRL pads prompts on the left, and passes no positions to the model. Models with learned positions, such as
GPT-2, then count the padding, while `generate` does not: the log-probabilities are not those of the
completions that were sampled, and depend on the longest prompt of the batch.

    trl/trainer/grpo_trainer.py:1450 `GRPOTrainer._get_per_token_logps_and_entropies`: `model_inputs = {`
    trl/trainer/rloo_trainer.py:1019 `RLOOTrainer._get_per_token_logps_and_entropies`: `model_inputs = {`
"""

from typing import Any

from posttrain.runtime.models.left_padding import position_arguments


def patch_positions(trainer: Any) -> None:
    """Pass the positions of the tokens with every batch whose log-probabilities are computed."""
    original = trainer._get_per_token_logps_and_entropies

    def with_positions(model: Any, *args: Any, **kwargs: Any) -> Any:
        def forward(attention_mask: Any, **inputs: Any) -> Any:
            positions = position_arguments(trainer.model, attention_mask)
            return model(attention_mask=attention_mask, **positions, **inputs)

        return original(forward, *args, **kwargs)

    trainer._get_per_token_logps_and_entropies = with_positions
