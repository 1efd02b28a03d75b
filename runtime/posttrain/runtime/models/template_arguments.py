"""Writes the arguments that a model declares for its chat template into the template, as defaults.

Whatever renders the template then has them: training, rollouts, in-loop evals, evals, generation, reward
models, benchmarks, and programs that load an exported model. An argument of a stage or a row replaces the
default.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from posttrain.runtime.errors import StepError
from posttrain.runtime.models.template_probe import template_names

# transformers and vLLM drop the line break after a block, so the lines add nothing to the text.
_LINE = "{{% set {name} = {name} if {name} is defined else {value} %}}\n"
_LINES = re.compile(r"(?:\{% set (\w+) = \1 if \1 is defined else .*? %\}\n)+")
_NAMES = re.compile(r"^\{% set (\w+) = ", re.MULTILINE)
_Template = str | dict[str, str]


def set_default_arguments(tokenizer: Any, arguments: Mapping[str, Any]) -> None:
    """Give arguments of the template defaults. Raises StepError for one that the template does not read."""
    template: _Template | None = tokenizer.chat_template
    if template is None:
        raise StepError(
            "the model has `chat_template_kwargs`, but no chat template",
            "set `chat_template` of the model, such as chatml, or remove `chat_template_kwargs`",
        )
    known = template_names(template)
    ignored = next((name for name in arguments if name not in known), None)
    if ignored is not None:
        raise StepError(
            f"the chat template of the model does not read the argument `{ignored}`",
            "correct its name, or remove it from `chat_template_kwargs` of the model",
        )
    lines = "".join(_LINE.format(name=name, value=_literal(value)) for name, value in arguments.items())
    tokenizer.chat_template = (
        lines + template
        if isinstance(template, str)
        else {name: lines + text for name, text in template.items()}
    )


def split_default_arguments(template: str) -> tuple[str, str]:
    """The lines that set the defaults, and the template without them."""
    found = _LINES.match(template)
    end = found.end() if found is not None else 0
    return template[:end], template[end:]


def default_argument_names(template: _Template | None) -> frozenset[str]:
    """The arguments that have defaults."""
    texts: Iterable[str] = template.values() if isinstance(template, dict) else [template or ""]
    return frozenset(name for text in texts for name in _NAMES.findall(split_default_arguments(text)[0]))


def _literal(value: Any) -> str:
    """A value of JSON as an expression of Jinja."""
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        pairs = cast(Mapping[str, Any], value)
        return "{" + ", ".join(f"{_literal(key)}: {_literal(one)}" for key, one in pairs.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_literal, cast(Iterable[Any], value))) + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
