"""Prompts as the text that a model reads."""

from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.training.rows import conversational


def rendered(context: Context, tokenizer: Any, rows: list[dict[str, Any]]) -> list[str]:
    """Each row's prompt, through the chat template where the stage takes it."""
    chat = conversational(context, tokenizer)
    return [_rendered(row["prompt"], tokenizer, chat) for row in rows]


def _rendered(prompt: Any, tokenizer: Any, chat: bool) -> str:
    if isinstance(prompt, str):
        if not chat:
            return prompt
        prompt = [{"role": "user", "content": prompt}]
    return tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
