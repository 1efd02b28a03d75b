"""Reads and checks a chat template file of the recipe."""

from pathlib import Path
from typing import Any

from posttrain.runtime.errors import StepError

_PROBE_TEXT = "7 and 351"  # unlikely to occur in a template itself


def read_chat_template(file: Path) -> str:
    from posttrain.runtime.models.bounded_jinja import MAX_TEMPLATE_CHARS

    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(MAX_TEMPLATE_CHARS + 1)
    except UnicodeDecodeError as error:
        raise StepError(
            f"the chat template {file.name} is not valid UTF-8: {error}", "save the file as UTF-8"
        ) from None
    if len(text) > MAX_TEMPLATE_CHARS:
        message = f"the chat template {file.name} has more than {MAX_TEMPLATE_CHARS:,} characters"
        raise StepError(message, "name the file of a Jinja template")
    return text


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
