"""Checks that a chat template renders what conversations have: each role, tools, their calls, and reasoning.

Jinja ignores what a template does not read, so the model would neither see nor learn it. Each kind of text is
replaced by a probe in the first conversation that has it. Arguments have their names in the template.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from posttrain.runtime.chat_prompts import ChatPrompt
from posttrain.runtime.errors import StepError
from posttrain.spec.messages import Message, turn_text

_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")
_PROBE = "probe73516"  # unlikely to occur in a template
_TOOL = {
    "type": "function",
    "function": {"name": _PROBE, "description": _PROBE, "parameters": {"type": "object", "properties": {}}},
}
_TOOL_ADVICE = (
    "use a chat template with tools, such as the built-in chatml, qwen, llama3 or mistral, or remove them in"
    " the dataset's steps"
)
_REASONING_ADVICE = (
    "use a chat template with reasoning, such as the built-in chatml or qwen, or move the reasoning into"
    " `content` in the dataset's steps"
)
_ROLE_ADVICE = (
    "rename the role with the data step `conversations`, or use a chat template that renders turns of this"
    " role"
)
# What to look for, how to name it, what to do, and the conversation with a probe in its place.
_Probe = tuple[str, str, Callable[[], ChatPrompt]]


def check_rendered_parts(
    conversations: Iterable[tuple[int, ChatPrompt]], template: str | dict[str, str], *, learned: bool
) -> None:
    """Raise StepError for the first numbered row with a part that the template leaves out.

    Reasoning is expected only in turns that the model learns: templates drop that of earlier answers.
    """
    rendered: set[str] = set()
    names = template_names(template)
    for number, talk in conversations:
        ignored = next((name for name in talk.template_kwargs if name not in names), None)
        if ignored is not None:
            message = f"row {number}: the chat template does not read the argument `{ignored}`"
            raise StepError(message, "correct its name, or remove it from `chat_template_kwargs`")
        for part, advice, probed in _probes(talk, learned=learned):
            if part in rendered:
                continue
            rendered.add(part)
            if not _renders(template, probed()):
                raise StepError(f"row {number}: the chat template does not render {part}", advice)


def first_with_parts(
    conversations: Iterable[tuple[int, ChatPrompt]], template: str | dict[str, str], *, learned: bool
) -> dict[str, int]:
    """The numbers of the first rows that `check_rendered_parts` would look at, by the part that they have.

    Of all rows, it needs only these.
    """
    found: dict[str, int] = {}
    names = template_names(template)
    for number, talk in conversations:
        for name in talk.template_kwargs:
            if name not in names:
                found.setdefault(name, number)
        for part, _, _ in _probes(talk, learned=learned):
            found.setdefault(part, number)
    return found


def _probes(talk: ChatPrompt, *, learned: bool) -> Iterator[_Probe]:
    if talk.tools:
        yield "the tools of a row", _TOOL_ADVICE, lambda: replace(talk, tools=[_TOOL])
    for place, turn in enumerate(talk.messages):
        role = turn["role"]
        if turn_text(turn).strip():
            advice = _TOOL_ADVICE if role == "tool" else _ROLE_ADVICE
            yield f"turns of `{role}`", advice, _changed(talk, place, {"content": _PROBE})
        if turn.get("tool_calls"):
            call = {"type": "function", "function": {"name": _PROBE, "arguments": {}}}
            yield "tool calls", _TOOL_ADVICE, _changed(talk, place, {"tool_calls": [call]})
        if learned and turn.get("reasoning_content"):
            last = talk.with_messages(talk.messages[: place + 1])
            yield (
                "`reasoning_content`",
                _REASONING_ADVICE,
                _changed(last, place, {"reasoning_content": _PROBE}),
            )


def _changed(talk: ChatPrompt, place: int, fields: Message) -> Callable[[], ChatPrompt]:
    def change() -> ChatPrompt:
        before, turn, after = talk.messages[:place], talk.messages[place], talk.messages[place + 1 :]
        return talk.with_messages([*before, {**turn, **fields}, *after])

    return change


def template_names(template: str | dict[str, str]) -> set[str]:
    """The names that a template may read."""
    texts = template.values() if isinstance(template, dict) else [template]
    return {name for text in texts for name in _WORD.findall(_COMMENT.sub("", text))}


def find_rejection(
    conversations: Iterable[tuple[int, ChatPrompt]], template: str | dict[str, str]
) -> tuple[int, str] | None:
    """The number of the first row that the template rejects, and its message."""
    from jinja2 import TemplateError

    for number, talk in conversations:
        try:
            _render(template, talk)
        except TemplateError as error:
            return number, str(error)
    return None


def _renders(template: str | dict[str, str], talk: ChatPrompt) -> bool:
    """Whether the text has the probe. A template that raises an error does not ignore anything."""
    try:
        return _PROBE in _render(template, talk)
    except Exception:
        return True


def _render(template: str | dict[str, str], talk: ChatPrompt) -> str:
    from transformers.utils.chat_template_utils import render_jinja_template

    if isinstance(template, dict):
        template = template["tool_use"] if talk.tools and "tool_use" in template else template["default"]
    tokens = dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), "")
    render: Any = render_jinja_template
    texts, _ = render(
        conversations=[talk.messages],
        tools=talk.tools,
        chat_template=template,
        **{**tokens, **talk.template_kwargs},
    )
    return texts[0]
