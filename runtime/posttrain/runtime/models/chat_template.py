"""A chat template from beside the recipe: read, and held to what every template has to do."""

from pathlib import Path
from typing import Any

from posttrain.runtime.errors import StepError

_PROBE_TEXT = "7 and 351"  # no template has them of its own


def read_chat_template(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise StepError(f"the chat template {file.name} is not UTF-8: {error}", "save it as UTF-8") from None


def check_chat_template(tokenizer: Any, name: str) -> None:
    """Whether the template can be read, and writes what a user says.

    One that raises by itself may only want other turns than these.
    """
    from jinja2 import TemplateError, TemplateSyntaxError

    messages = [{"role": "user", "content": _PROBE_TEXT}]
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except TemplateSyntaxError as error:
        message = f"the chat template {name} cannot be read: line {error.lineno}: {error.message}"
        raise StepError(message, "correct the template") from None
    except TemplateError:
        return
    if _PROBE_TEXT not in text:
        raise StepError(
            f"the chat template {name} leaves out what the user says",
            "write {{ message.content }} for every message of `messages`",
        )
