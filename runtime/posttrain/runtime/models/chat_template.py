"""Reads and checks a chat template file of the recipe."""

from pathlib import Path
from typing import Any

from posttrain.runtime.errors import StepError

_PROBE_TEXT = "7 and 351"  # unlikely to occur in a template itself


def read_chat_template(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise StepError(
            f"the chat template {file.name} is not valid UTF-8: {error}", "save the file as UTF-8"
        ) from None


def check_chat_template(tokenizer: Any, name: str) -> None:
    """Check that the template parses and renders user messages.

    A template that raises an error itself is accepted: it may require other turns than the probe has.
    """
    from jinja2 import TemplateError, TemplateSyntaxError

    messages = [{"role": "user", "content": _PROBE_TEXT}]
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except TemplateSyntaxError as error:
        message = f"the chat template {name} has a syntax error in line {error.lineno}: {error.message}"
        raise StepError(message, "fix the template") from None
    except TemplateError:
        return
    if _PROBE_TEXT not in text:
        raise StepError(
            f"the chat template {name} does not render user messages",
            "output {{ message.content }} for every message of `messages`",
        )
