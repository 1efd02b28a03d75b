"""A chat template that leaves out a part of the conversations is an error before the training."""

from typing import Any

import pytest

from posttrain.runtime.chat_prompts import ChatPrompt
from posttrain.runtime.errors import StepError
from posttrain.runtime.models.tag_template import tag_chat_template
from posttrain.runtime.models.template_probe import check_rendered_parts
from posttrain.spec.chat_templates.builtin_templates import BUILTIN_TEMPLATES
from posttrain.spec.model_declaration import Tags

CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {}}}
ASK = {"role": "user", "content": "1+1?"}
ANSWER = {"role": "assistant", "content": "2"}
CALLED = {"role": "assistant", "tool_calls": [CALL]}
RESULT = {"role": "tool", "content": "2"}
THOUGHT = {**ANSWER, "reasoning_content": "easy"}
CONTENT = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
USERS = "{% for m in messages if m.role in ['user', 'assistant'] %}{{ m.content }}{% endfor %}"
CALLS = CONTENT + "{% for m in messages %}{{ m.tool_calls }}{% endfor %}"
TAGS = tag_chat_template(Tags(answer=("<a>", "</a>")))


def check(template: Any, turns: list[Any], *, learned: bool = True, **fields: Any) -> None:
    talks = [(1, ChatPrompt([ASK, ANSWER])), (2, ChatPrompt(turns, **fields))]
    check_rendered_parts(talks, template, learned=learned)


LEFT_OUT: dict[str, tuple[Any, list[Any], dict[str, Any], str]] = {
    "tools": (CONTENT, [ASK, ANSWER], {"tools": [TOOL]}, "the tools of a row"),
    "calls": (CONTENT, [ASK, CALLED, RESULT, ANSWER], {}, "tool calls"),
    "calls and tags": (TAGS, [ASK, CALLED, RESULT, ANSWER], {}, "tool calls"),
    "results": (USERS, [ASK, ANSWER, RESULT, ANSWER], {}, "turns of `tool`"),
    "role": (USERS, [ASK, {"role": "critic", "content": "no"}, ANSWER], {}, "turns of `critic`"),
    "reasoning": (CALLS, [ASK, THOUGHT], {}, "`reasoning_content`"),
    "named templates": (
        {"default": CONTENT, "tool_use": CALLS},
        [ASK, ANSWER],
        {"tools": [TOOL]},
        "the tools",
    ),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_what_a_template_leaves_out_is_an_error(case: str) -> None:
    template, turns, fields, said = LEFT_OUT[case]
    with pytest.raises(StepError, match=f"row 2: the chat template does not render {said}") as caught:
        check(template, turns, **fields)
    assert caught.value.advice


def test_earlier_reasoning_of_a_prompt_may_be_left_out() -> None:
    check(CONTENT, [ASK, THOUGHT, ASK], learned=False)


@pytest.mark.parametrize("name", BUILTIN_TEMPLATES)
def test_built_in_templates_render_everything_or_refuse_it(name: str) -> None:
    template = BUILTIN_TEMPLATES[name].text
    check(template, [ASK, CALLED, RESULT, ANSWER], tools=[TOOL])
    check(template, [ASK, THOUGHT, ASK, THOUGHT])
    check(template, [{"role": "system", "content": "Be brief."}, ASK, ANSWER])


def test_the_arguments_of_a_row_apply() -> None:
    template = CONTENT + "{% if deep %}{{ tools }}{% endif %}"
    check(template, [ASK, ANSWER], tools=[TOOL], template_kwargs={"deep": True})
    with pytest.raises(StepError, match="the tools of a row"):
        check(template, [ASK, ANSWER], tools=[TOOL])


def test_an_argument_that_the_template_does_not_read_is_an_error() -> None:
    template = BUILTIN_TEMPLATES["qwen"].text
    check(template, [ASK, ANSWER], template_kwargs={"enable_thinking": False})
    with pytest.raises(StepError, match=r"row 2: .* does not read the argument `enable_thinkin`"):
        check(template, [ASK, ANSWER], template_kwargs={"enable_thinkin": False})
    with pytest.raises(StepError, match="`tools_in_user_message`"):
        check(CONTENT + "{# tools_in_user_message #}", [ASK], template_kwargs={"tools_in_user_message": True})
