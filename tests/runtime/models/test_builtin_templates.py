"""The built-in chat templates render like those of their families, and mask like TRL's training templates."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trl
from jinja2 import TemplateError
from trl.chat_template_utils import (
    has_generation_markers,
    is_chat_template_prefix_preserving,
    is_chat_template_stop_token_trained,
    supports_tool_calling,
)

from posttrain.runtime.environments.tokenization import EpisodeTokenizer
from posttrain.runtime.models.builtin_chat_template import set_builtin_template
from posttrain.runtime.models.character_tokenizer import build_character_tokenizer
from posttrain.spec.chat_templates.builtin_templates import BUILTIN_TEMPLATES
from posttrain.spec.model_declaration import Tokenizer

_FOLDER = Path(trl.__file__).parent / "chat_templates"
Turns = list[dict[str, Any]]


def tokenizer_with(name: str) -> Any:
    template = BUILTIN_TEMPLATES[name]
    tokenizer = build_character_tokenizer(Tokenizer().alphabet, (), template)
    set_builtin_template(tokenizer, template, add_tokens=True)
    return tokenizer


def turn(role: str, content: str | None = "", **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


def call(name: str, arguments: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **fields}


def thought(content: str, reasoning: str, **fields: Any) -> dict[str, Any]:
    return turn("assistant", content, reasoning_content=reasoning, **fields)


ADD = call("add", {"a": 1, "b": 2})
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add <two> numbers.",
            "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
        },
    }
]
SYSTEM, ASK, ANSWER = turn("system", " Be brief. "), turn("user", "1+2? "), turn("assistant", " 3 ")
PLAIN: dict[str, Turns] = {
    "question": [ASK],
    "answer": [ASK, ANSWER],
    "system": [SYSTEM, ASK, ANSWER],
    "several": [ASK, ANSWER, turn("user", "And\n\nmore?"), turn("assistant", "6")],
    "system_and_several": [SYSTEM, ASK, ANSWER, turn("user", "?"), turn("assistant", "6\n")],
}
TOOL_TURNS: dict[str, Turns] = {
    "call": [SYSTEM, ASK, turn("assistant", "", tool_calls=[ADD])],
    "result": [
        SYSTEM,
        ASK,
        turn("assistant", "", tool_calls=[ADD]),
        turn("tool", "3"),
        turn("assistant", "3."),
    ],
}
TWO_CALLS: dict[str, Turns] = {
    "text_and_calls": [
        SYSTEM,
        ASK,
        turn("assistant", "Wait.", tool_calls=[ADD, call("add", {"a": 3})]),
        turn("tool", "3"),
        turn("tool", "4"),
        turn("assistant", "3, 4."),
    ],
}
REASONED: dict[str, Turns] = {
    "reasoned": [ASK, thought("3", "1 and 2")],
    "reasoned_in_the_text": [ASK, turn("assistant", "<think>\n1 and 2\n</think>\n\n3")],
    "earlier_reasoning": [ASK, thought("3", "1 and 2"), turn("user", "?"), thought("6", "twice")],
    "reasoned_call": [
        ASK,
        thought("", "use the tool", tool_calls=[ADD]),
        turn("tool", "3"),
        thought("3.", "done"),
        turn("user", "?"),
        turn("assistant", "yes"),
    ],
}


def trl_template(name: str) -> str:
    return (_FOLDER / f"{name}.jinja").read_text(encoding="utf-8")


def encode(tokenizer: Any, messages: Turns, **options: Any) -> tuple[list[int], list[int]]:
    """The token ids, and the mask of the assistant's tokens."""
    encoded = tokenizer.apply_chat_template(
        messages, return_dict=True, return_assistant_tokens_mask=True, **options
    )
    return encoded["input_ids"], encoded["assistant_masks"]


def cases(*groups: tuple[str, str, dict[str, Turns], dict[str, Any]]) -> list[Any]:
    return [
        pytest.param(
            name, other, turns, options, id=f"{name}-{other}-{case}{'-tools' if 'tools' in options else ''}"
        )
        for name, other, conversations, options in groups
        for case, turns in conversations.items()
    ]


WITH_TOOLS = {"tools": TOOLS}
_SYSTEM_FIRST = {case: turns for case, turns in PLAIN.items() if "system" in case}
_NO_SYSTEM = {case: turns for case, turns in PLAIN.items() if "system" not in case}


@pytest.mark.parametrize(
    ("name", "original", "turns", "options"),
    cases(
        ("chatml", "qwen2_5", {**_SYSTEM_FIRST, **TOOL_TURNS, **TWO_CALLS}, {}),
        ("chatml", "qwen2_5", {**_SYSTEM_FIRST, **TOOL_TURNS, **TWO_CALLS}, WITH_TOOLS),
        ("chatml", "qwen3_instruct_2507", {**PLAIN, **TOOL_TURNS, **TWO_CALLS}, WITH_TOOLS),
        ("qwen", "qwen3", {**PLAIN, **REASONED}, {}),
        ("qwen", "qwen3", {**PLAIN, **REASONED}, WITH_TOOLS),
        ("llama3", "llama3", PLAIN, {}),
        ("gemma", "gemma3", PLAIN, {}),
        ("gemma", "gemma", _NO_SYSTEM, {}),
    ),
)
@pytest.mark.parametrize("prompt", [False, True])
def test_the_tokens_are_those_of_the_family(
    name: str, original: str, turns: Turns, options: dict[str, Any], prompt: bool
) -> None:
    tokenizer = tokenizer_with(name)
    ids = tokenizer.apply_chat_template(turns, add_generation_prompt=prompt, return_dict=False, **options)
    expected = tokenizer.apply_chat_template(
        turns,
        add_generation_prompt=prompt,
        chat_template=trl_template(original),
        return_dict=False,
        **options,
    )
    assert ids == expected


@pytest.mark.parametrize(
    ("name", "training", "turns", "options"),
    cases(
        ("chatml", "qwen3_instruct_2507_training", {**PLAIN, **TOOL_TURNS, **TWO_CALLS}, WITH_TOOLS),
        (
            "qwen",
            "qwen3_training",
            {**PLAIN, **TOOL_TURNS, **TWO_CALLS, **REASONED},
            {"preserve_thinking": True},
        ),
        ("qwen", "qwen3_training", {**PLAIN, **REASONED}, {"preserve_thinking": True, **WITH_TOOLS}),
        ("llama3", "llama3_training", PLAIN, {}),
        ("gemma", "gemma3_training", PLAIN, {}),
        ("gemma", "gemma_training", _NO_SYSTEM, {}),
    ),
)
def test_the_mask_is_that_of_trl(name: str, training: str, turns: Turns, options: dict[str, Any]) -> None:
    tokenizer = tokenizer_with(name)
    ids, mask = encode(tokenizer, turns, **options)
    assert (ids, mask) == encode(tokenizer, turns, chat_template=trl_template(training), **options)
    assert any(mask) == any(one["role"] == "assistant" for one in turns)


@pytest.mark.parametrize("turns", [*PLAIN.values(), *TOOL_TURNS.values()])
@pytest.mark.parametrize("prompt", [False, True])
def test_llama3_lists_tools_like_llama_3_1_without_its_dates(turns: Turns, prompt: bool) -> None:
    tokenizer = tokenizer_with("llama3")
    options: Any = {"tools": TOOLS, "add_generation_prompt": prompt, "tokenize": False}
    original = tokenizer.apply_chat_template(turns, chat_template=trl_template("llama3_1"), **options)
    dates = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
    assert dates in original
    assert tokenizer.apply_chat_template(turns, **options) == original.replace(dates, "")


def test_qwen_drops_earlier_reasoning_unless_it_is_preserved() -> None:
    tokenizer, turns = tokenizer_with("qwen"), REASONED["earlier_reasoning"]
    text = tokenizer.apply_chat_template(turns, tokenize=False)
    assert "1 and 2" not in text
    assert "twice" in text
    assert "1 and 2" in tokenizer.apply_chat_template(turns, tokenize=False, preserve_thinking=True)


def test_chatml_keeps_all_reasoning() -> None:
    text = tokenizer_with("chatml").apply_chat_template(REASONED["earlier_reasoning"], tokenize=False)
    assert "<think>\n1 and 2\n</think>\n\n3<|im_end|>" in text
    assert "<think>\ntwice\n</think>\n\n6<|im_end|>" in text


def test_qwen_without_thinking_closes_the_reasoning_in_the_prompt() -> None:
    tokenizer = tokenizer_with("qwen")
    options: Any = {"add_generation_prompt": True, "enable_thinking": False, "tokenize": False}
    expected = tokenizer.apply_chat_template([ASK], chat_template=trl_template("qwen3"), **options)
    assert tokenizer.apply_chat_template([ASK], **options) == expected


# From the documentation of the formats; the end token of these tokenizers is <|end|>.
_MISTRAL_TOOLS = '[AVAILABLE_TOOLS] [{"type": "function", "function": {"name": "f"}}][/AVAILABLE_TOOLS]'
_MISTRAL_TURNS = (
    '[TOOL_CALLS] [{"name": "f", "arguments": {"x": 1}, "id": "abcdefghi"}, '
    '{"name": "g", "arguments": {}}]<|end|>'
    '[TOOL_RESULTS] {"content": {"y": 2}, "call_id": "abcdefghi"}[/TOOL_RESULTS]'
    '[TOOL_RESULTS] {"content": "say \\"2\\""}[/TOOL_RESULTS] B<|end|>'
)
LITERALS = {
    "mistral": (
        [turn("system", "S"), turn("user", "A"), turn("assistant", "B "), turn("user", "C")],
        {},
        "<s>[INST] S\n\nA[/INST] B<|end|>[INST] C[/INST]",
    ),
    "mistral_tools": (
        [
            turn("user", "A"),
            turn("assistant", None, tool_calls=[call("f", {"x": 1}, id="call_abcdefghi"), call("g", "{}")]),
            turn("tool", '{"y": 2}', tool_call_id="call_abcdefghi"),
            turn("tool", 'say "2"'),
            turn("assistant", "B"),
        ],
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        f"<s>{_MISTRAL_TOOLS}[INST] A[/INST]{_MISTRAL_TURNS}",
    ),
    "zephyr": (
        [turn("system", "S"), turn("user", "A"), turn("assistant", "B"), turn("user", "C")],
        {"add_generation_prompt": True},
        "<|system|>\nS<|end|>\n<|user|>\nA<|end|>\n<|assistant|>\nB<|end|>\n<|user|>\nC<|end|>\n<|assistant|>\n",
    ),
    "tulu": (
        [turn("system", "S"), turn("user", "A"), turn("assistant", "B"), turn("user", "C")],
        {"add_generation_prompt": True},
        "<|system|>\nS\n<|user|>\nA\n<|assistant|>\nB<|end|>\n<|user|>\nC\n<|assistant|>\n",
    ),
    "tulu_last": ([turn("user", "A"), turn("assistant", "B")], {}, "<|user|>\nA\n<|assistant|>\nB<|end|>"),
}


@pytest.mark.parametrize("case", LITERALS)
def test_formats_that_trl_has_no_template_of(case: str) -> None:
    turns, options, expected = LITERALS[case]
    tokenizer = tokenizer_with(case.partition("_")[0])
    assert tokenizer.apply_chat_template(turns, tokenize=False, **options) == expected


@pytest.mark.parametrize("name", BUILTIN_TEMPLATES)
def test_the_mask_covers_each_answer_and_its_end(name: str) -> None:
    tokenizer = tokenizer_with(name)
    ids, mask = encode(tokenizer, PLAIN["several"])
    masked = "".join(
        tokenizer.decode([token]) for token, marked in zip(ids, mask, strict=True) if marked
    ).split(tokenizer.eos_token)
    answers = [text.replace("<think>", "").replace("</think>", "").strip() for text in masked]
    assert answers == ["3", "6", ""]


@pytest.mark.parametrize("name", BUILTIN_TEMPLATES)
def test_trl_accepts_the_template_for_training(name: str) -> None:
    tokenizer = tokenizer_with(name)
    assert has_generation_markers(tokenizer.chat_template)
    assert is_chat_template_stop_token_trained(tokenizer)
    tools = supports_tool_calling(tokenizer)
    assert tools == BUILTIN_TEMPLATES[name].renders_tools == (name in ("chatml", "qwen", "llama3", "mistral"))
    assert not tools or is_chat_template_prefix_preserving(tokenizer)


@pytest.mark.parametrize("name", BUILTIN_TEMPLATES)
def test_a_turn_does_not_change_when_others_follow(name: str) -> None:
    tokenizer = tokenizer_with(name)
    turns = PLAIN["system_and_several"]
    whole = tokenizer.apply_chat_template(turns, tokenize=False, preserve_thinking=True)
    for count in (2, 3, 4):
        part = tokenizer.apply_chat_template(turns[:count], tokenize=False, preserve_thinking=True)
        assert whole.startswith(part)


@pytest.mark.parametrize("name", BUILTIN_TEMPLATES)
def test_the_prompt_is_where_the_answer_starts(name: str) -> None:
    tokenizer = tokenizer_with(name)
    turns = PLAIN["system"]
    prompt = tokenizer.apply_chat_template(turns[:-1], add_generation_prompt=True, return_dict=False)
    ids, mask = encode(tokenizer, turns)
    assert ids[: len(prompt)] == prompt
    assert mask.index(1) == len(prompt)


@pytest.mark.parametrize("name", BUILTIN_TEMPLATES)
def test_a_text_starts_with_one_bos_at_most(name: str) -> None:
    tokenizer = tokenizer_with(name)
    ids, _ = encode(tokenizer, PLAIN["system_and_several"])
    assert ids.count(tokenizer.bos_token_id) == (1 if BUILTIN_TEMPLATES[name].bos else 0)
    assert BUILTIN_TEMPLATES[name].bos == tokenizer.bos_token


REFUSED: dict[str, tuple[str, Turns, dict[str, Any], str]] = {
    "gemma_tools": ("gemma", [ASK], WITH_TOOLS, "has no form for tools"),
    "zephyr_tools": ("zephyr", [ASK], WITH_TOOLS, "has no form for tools"),
    "tulu_tools": ("tulu", [ASK], WITH_TOOLS, "has no form for tools"),
    "gemma_tool_turn": ("gemma", [ASK, turn("assistant", "", tool_calls=[ADD])], {}, "has no form for tools"),
    "zephyr_tool_turn": ("zephyr", [ASK, turn("tool", "3")], {}, "has no form for tools"),
    "tulu_role": ("tulu", [turn("developer", "x")], {}, "takes the roles"),
    "gemma_order": ("gemma", [ASK, ASK], {}, "that alternate"),
    "mistral_order": ("mistral", [ANSWER], {}, "that alternate"),
    "mistral_text_and_call": ("mistral", TWO_CALLS["text_and_calls"], {}, "takes no text in a turn"),
    "llama3_two_calls": ("llama3", TWO_CALLS["text_and_calls"], {}, "takes one tool call in a turn"),
    "llama3_no_question": ("llama3", [SYSTEM], WITH_TOOLS, "in the first user turn"),
    **{
        f"{name}_reasoning": (name, REASONED["reasoned"], {}, "has no form for reasoning_content")
        for name in ("llama3", "gemma", "mistral", "zephyr", "tulu")
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_family_has_no_form_for_is_refused(case: str) -> None:
    name, turns, options, said = REFUSED[case]
    with pytest.raises(TemplateError, match=said):
        tokenizer_with(name).apply_chat_template(turns, tokenize=False, **options)


@pytest.mark.parametrize("name", BUILTIN_TEMPLATES)
def test_an_episode_is_the_conversation_of_its_turns(name: str) -> None:
    """Its tokens are those of the whole conversation, although each turn is rendered alone."""
    tokenizer = tokenizer_with(name)
    observed = [turn("user", "1+2?"), turn("assistant", "3"), turn("user", "And more?")]
    session: Any = SimpleNamespace(format_observation=str)
    state: Any = SimpleNamespace(messages=observed)
    episode = EpisodeTokenizer(tokenizer, [], session)
    opening = episode.encode_opening(observed[:1], "")
    ids, mask = encode(tokenizer, observed[:2])
    answer = [token for token, marked in zip(ids, mask, strict=True) if marked]
    answer = answer[: answer.index(tokenizer.eos_token_id) + 1]
    found = opening + answer + episode.encode_reply(state, answer[-1], observed[:1])
    options: Any = {"add_generation_prompt": True, "return_dict": False, "preserve_thinking": True}
    assert found == tokenizer.apply_chat_template(observed, **options)
