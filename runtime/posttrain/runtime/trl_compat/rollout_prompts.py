"""Tokenizes the prompts of GRPO and RLOO: text without the special tokens that end it, and tools of a row.

TRL tokenizes a text prompt as a complete text. With a tokenizer that appends EOS, the model would generate
after an end of sequence. The chat template gets the tools of the trainer, not those of a row.

    trl/trainer/grpo_trainer.py:1758 `GRPOTrainer._tokenize_prompts`: `self.processing_class(text=prompts)`
    trl/trainer/rloo_trainer.py:1289 `RLOOTrainer._tokenize_prompts`: `self.processing_class(text=prompts)`
    trl/trainer/grpo_trainer.py:1739 `GRPOTrainer._tokenize_prompts`: `tools=self.tools or None`
"""

from typing import Any

from posttrain.runtime.chat_prompts import row_prompt
from posttrain.runtime.prompt_tokenization import tokenize_prompts


def patch_prompt_tokenization(trainer: Any) -> None:
    """Tokenize the text prompts of a trainer in the same way as other stages do."""
    original = trainer._tokenize_prompts

    def tokenize(prompts: list[Any]) -> Any:
        if all(isinstance(prompt, str) for prompt in prompts):
            return tokenize_prompts(prompts, trainer.processing_class), None, {}
        return original(prompts)

    trainer._tokenize_prompts = tokenize


def patch_row_tools(trainer: Any) -> None:
    """Render each prompt with the tools and template arguments of its row. TRL passes the prompts alone."""
    generate = trainer._generate_and_score_completions
    # The rows of the current generation, one for each completion.
    current: list[dict[str, Any]] = []

    def generate_with_rows(rows: list[dict[str, Any]]) -> Any:
        current[:] = rows
        return generate(rows)

    def tokenize(prompts: list[Any]) -> Any:
        rows = zip(current, prompts, strict=True)
        every = [row_prompt({**row, "prompt": prompt}) for row, prompt in rows]
        return tokenize_prompts(every, trainer.processing_class), None, {}

    trainer._generate_and_score_completions = generate_with_rows
    trainer._tokenize_prompts = tokenize
