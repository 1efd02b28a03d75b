"""The arguments that a model declares become defaults of its chat template."""

from typing import Any

import pytest
from tests.runtime.small_tokenizers import small_tokenizer

from posttrain.runtime.chat_prompts import ChatPrompt
from posttrain.runtime.engines.engine_protocol import ENDPOINT_TEMPLATE
from posttrain.runtime.environments.tokenization import _KEEP_REASONING
from posttrain.runtime.errors import StepError
from posttrain.runtime.models.template_arguments import (
    default_argument_names,
    set_default_arguments,
    split_default_arguments,
)
from posttrain.runtime.prompt_tokenization import tokenize_prompt
from posttrain.spec.chat_templates.builtin_templates import BUILTIN_TEMPLATES

ASK = [{"role": "user", "content": "1+1"}]
VALUES: list[Any] = [
    *(True, False, None, 0, -3, 1.5, 1e-7, "", "a"),
    *('say "no" %} {# {{ \\ \n', "ä \u2028 😀", "{% endif %}"),
    *([], [1, ["b", None]], {}, {"deep": {"x": [True, 2.5]}, "y'": "z"}),
]
# Texts that begin in ways that a line before them could change.
BEGINNINGS = [
    "",
    "\n",
    "  \n",
    "{%- if true %}\n  {%- endif %}\n",
    "  {% if true %}x{% endif %}",
    "{{ '' }}\n",
    "{#- c #}\n",
]


def tokenizer_with(template: Any) -> Any:
    tokenizer = small_tokenizer("adds_bos")
    tokenizer.chat_template = template
    return tokenizer


def render(tokenizer: Any, **arguments: Any) -> Any:
    return tokenizer.apply_chat_template(ASK, tokenize=False, **arguments)


@pytest.mark.parametrize("value", VALUES)
def test_a_default_renders_like_an_argument(value: Any) -> None:
    plain = tokenizer_with("{{ messages[0].content }}{{ mode is none }}{{ mode | tojson }}")
    given = tokenizer_with(plain.chat_template)
    set_default_arguments(given, {"mode": value})
    assert render(given) == render(plain, mode=value)
    assert render(given, mode="other") == render(plain, mode="other")
    assert render(given, mode=None) == render(plain, mode=None)
    assert split_default_arguments(given.chat_template)[1] == plain.chat_template


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_the_defaults_add_no_text(beginning: str) -> None:
    plain = tokenizer_with(beginning + "{{ messages[0].content }}{{ mode }}\n{{ other }}")
    given = tokenizer_with(plain.chat_template)
    set_default_arguments(given, {"mode": 1, "other": [2]})
    assert render(given) == render(plain, mode=1, other=[2])
    assert default_argument_names(given.chat_template) == {"mode", "other"}


def test_defaults_are_visible_in_loops_and_macros() -> None:
    text = "{% macro m() %}{{ mode }}{% endmacro %}{% for x in messages %}{{ mode }}{{ m() }}{% endfor %}"
    given = tokenizer_with(text)
    set_default_arguments(given, {"mode": "a"})
    assert (render(given), render(given, mode="b")) == ("aa", "bb")


def test_a_row_overrides_the_default() -> None:
    given = tokenizer_with(BUILTIN_TEMPLATES["qwen"].text)
    plain = tokenizer_with(BUILTIN_TEMPLATES["qwen"].text)
    set_default_arguments(given, {"enable_thinking": False})
    thinking = ChatPrompt(ASK, template_kwargs={"enable_thinking": True})
    quick = ChatPrompt(ASK, template_kwargs={"enable_thinking": False})
    assert tokenize_prompt(thinking, given) == tokenize_prompt(thinking, plain)
    assert tokenize_prompt(ASK, given) == tokenize_prompt(quick, plain)
    assert tokenize_prompt(ASK, given) != tokenize_prompt(thinking, given)


def test_each_of_several_templates_has_the_defaults() -> None:
    given = tokenizer_with({"default": "{{ mode }}", "tool_use": "{{ mode }}{{ tools }}"})
    set_default_arguments(given, {"mode": 1})
    assert default_argument_names(given.chat_template) == {"mode"}
    assert render(given) == "1"


@pytest.mark.parametrize(
    ("template", "problem"),
    [(None, "no chat template"), ("{# mode #}{{ messages }}", "does not read the argument `mode`")],
)
def test_a_template_must_read_the_arguments(template: Any, problem: str) -> None:
    with pytest.raises(StepError, match=problem):
        set_default_arguments(tokenizer_with(template), {"mode": 1})


def test_other_templates_have_no_defaults() -> None:
    assert not any(default_argument_names(one.text) for one in BUILTIN_TEMPLATES.values())
    assert default_argument_names(None) == default_argument_names(ENDPOINT_TEMPLATE) == frozenset()
    assert _KEEP_REASONING in BUILTIN_TEMPLATES["qwen"].text
