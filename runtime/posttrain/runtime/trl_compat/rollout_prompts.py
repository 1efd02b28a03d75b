"""Tokenizes the text prompts of GRPO and RLOO without the special tokens that end a text.

TRL tokenizes a text prompt as a complete text. With a tokenizer that appends EOS, the model would generate
after an end of sequence.

    trl/trainer/grpo_trainer.py:1758 `GRPOTrainer._tokenize_prompts`: `self.processing_class(text=prompts)`
    trl/trainer/rloo_trainer.py:1289 `RLOOTrainer._tokenize_prompts`: `self.processing_class(text=prompts)`
"""

from typing import Any

from posttrain.runtime.prompt_tokenization import tokenize_prompts


def patch_prompt_tokenization(trainer: Any) -> None:
    """Tokenize the text prompts of a trainer in the same way as other stages do."""
    original = trainer._tokenize_prompts

    def tokenize(prompts: list[Any]) -> Any:
        if all(isinstance(prompt, str) for prompt in prompts):
            return tokenize_prompts(prompts, trainer.processing_class), None, {}
        return original(prompts)

    trainer._tokenize_prompts = tokenize
