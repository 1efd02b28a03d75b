"""Prompts with tools: the same tokens as the chat template by hand, in every place that renders them."""

import copy
import json
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.training.test_tool_training import TOOL, character_tokenizer, talk, template

from posttrain.runtime.chat_prompts import ChatPrompt, chat_prompt, prompt_json, row_prompt
from posttrain.runtime.engines.completion_log import CompletionLog
from posttrain.runtime.engines.providers import SamplingParams, build_request, parse_completion
from posttrain.runtime.environments.episode_runner import EnvironmentSession, EpisodeState, step_episodes
from posttrain.runtime.environments.tokenization import EpisodeTokenizer, append_observation, last_observation
from posttrain.runtime.errors import StepError
from posttrain.runtime.prompt_tokenization import tokenize_prompts
from posttrain.runtime.prompts import build_prompts
from posttrain.runtime.training.reward_function import prompt_groups
from posttrain.runtime.trl_compat.rollout_prompts import patch_prompt_tokenization, patch_row_tools

PROMPT = talk(1, text=False)[:4]
ROWS: list[dict[str, Any]] = [
    {"prompt": PROMPT, "tools": json.dumps([TOOL])},
    {"prompt": PROMPT, "tools": None, "chat_template_kwargs": '{"enable_thinking": true}'},
]
SAMPLING = SamplingParams(temperature=0.0, max_tokens=4)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    made = character_tokenizer()
    made.chat_template = template("qwen3_training")
    return made


def built_prompts(tokenizer: Any, rows: list[dict[str, Any]], **kwargs: Any) -> list[Any]:
    params = SimpleNamespace(prompts="auto", few_shot=None, chat_template_kwargs=kwargs)
    context: Any = SimpleNamespace(params=params, files={})
    return build_prompts(context, tokenizer, rows)


def by_hand(tokenizer: Any, tools: Any, **kwargs: Any) -> list[int]:
    return tokenizer.apply_chat_template(
        PROMPT, tools=tools, add_generation_prompt=True, return_dict=True, **kwargs
    )["input_ids"]


def test_evals_and_generations_render_the_tools_of_a_row(tokenizer: Any) -> None:
    prompts = built_prompts(tokenizer, ROWS, enable_thinking=False)
    expected = [
        by_hand(tokenizer, [TOOL], enable_thinking=False),
        by_hand(tokenizer, None, enable_thinking=True),
    ]
    assert tokenize_prompts(prompts, tokenizer) == expected


def test_a_prompt_without_tools_is_a_list_of_messages(tokenizer: Any) -> None:
    (prompt,) = built_prompts(tokenizer, [{"prompt": [{**PROMPT[1], "weight": 0.0, "name": None}]}])
    assert prompt == [PROMPT[1]]


def test_other_tools_are_another_prompt_in_the_log() -> None:
    prompts = [chat_prompt(PROMPT, {"tools": tools}) for tools in (None, [TOOL])]
    log = CompletionLog(None, prompts, 1)
    assert log.prompt_id(0) != log.prompt_id(1)
    assert CompletionLog(None, [PROMPT], 1).prompt_id(0) == log.prompt_id(0)


MALFORMED = {
    "not JSON": "{",
    "no list": '{"a": 1}',
    "no function": '[{"type": "function"}]',
    "no object": "[1]",
    "misspelt": '[{"name": "f", "parameter": {}}]',
    "another type": '[{"type": "func", "function": {"name": "f"}}]',
    "twice": '[{"name": "f"}, {"name": "f"}]',
    "repeated key": '[{"name": "f", "name": "g"}]',
}


@pytest.mark.parametrize("value", MALFORMED.values(), ids=MALFORMED)
def test_malformed_tools_are_errors_with_their_row(value: str, tokenizer: Any) -> None:
    with pytest.raises(StepError, match="row 2: ") as caught:
        built_prompts(tokenizer, [ROWS[0], {"prompt": PROMPT, "tools": value}])
    assert caught.value.advice


@pytest.mark.parametrize("name", ["tokenize", "tools", "messages", "eos_token", "chat_template"])
def test_arguments_of_the_rendering_itself_are_errors(name: str, tokenizer: Any) -> None:
    row = {"prompt": PROMPT, "chat_template_kwargs": json.dumps({name: None})}
    with pytest.raises(StepError, match=f"row 2: .*has `{name}`, which the program sets itself"):
        built_prompts(tokenizer, [ROWS[0], row])


def test_a_rejected_prompt_is_shown(tokenizer: Any) -> None:
    tokenizer = copy.copy(tokenizer)
    tokenizer.chat_template = "{{ raise_exception('no') if messages | length > 2 else messages[0].content }}"
    with pytest.raises(StepError, match="rejects the prompt `a b c`: no"):
        tokenize_prompts([[{"role": "user", "content": text} for text in "abc"]], tokenizer)


def test_tools_of_plain_prompts_are_errors() -> None:
    with pytest.raises(StepError, match="row 1 has `tools`"):
        built_prompts(SimpleNamespace(chat_template=None), [{"prompt": "a", "tools": json.dumps([TOOL])}])


def test_rollouts_render_the_tools_of_a_row(tokenizer: Any) -> None:
    seen: list[Any] = []
    trainer: Any = SimpleNamespace(processing_class=tokenizer)
    trainer._tokenize_prompts = None
    trainer._generate_and_score_completions = lambda rows: seen.append(
        trainer._tokenize_prompts([row["prompt"] for row in rows])[0]
    )
    patch_prompt_tokenization(trainer)
    patch_row_tools(trainer)
    trainer._generate_and_score_completions(
        [
            {**ROWS[0], "chat_template_kwargs": {"enable_thinking": False}},
            {**ROWS[1], "chat_template_kwargs": {"enable_thinking": True}},
        ]
    )
    assert seen == [
        [by_hand(tokenizer, [TOOL], enable_thinking=False), by_hand(tokenizer, None, enable_thinking=True)]
    ]
    assert tokenize_prompts([row_prompt(ROWS[0])], tokenizer) == [by_hand(tokenizer, [TOOL])]


def test_prompts_with_other_tools_are_groups_of_their_own() -> None:
    assert prompt_groups([("a", "[]"), ("a", "[]"), ("a", None)]) == [0, 0, 1]


def test_requests_have_the_tools_and_arguments_as_text() -> None:
    prompt = ChatPrompt(PROMPT, [TOOL], {"enable_thinking": False})
    vllm = {"provider": "vllm", "model": "m", "base_url": "http://a.test/v1"}
    body = build_request(vllm, None, prompt, SAMPLING).body
    assert body["tools"] == [TOOL]
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'
    assert prompt_json(prompt)["messages"][2]["tool_calls"][0]["function"]["arguments"] == {"a": 1}
    plain = build_request(vllm, None, [PROMPT[1]], SAMPLING).body
    assert "tools" not in plain
    assert "chat_template_kwargs" not in plain


@pytest.mark.parametrize(
    ("provider", "prompt"),
    [
        ("openai", ChatPrompt(PROMPT, None, {"enable_thinking": False})),
        ("anthropic", ChatPrompt(PROMPT[:2], [TOOL])),
        ("gemini", PROMPT),
    ],
)
def test_requests_that_cannot_have_them_are_refused(provider: str, prompt: Any) -> None:
    endpoint = {"provider": provider, "model": "m", "base_url": "http://a.test/v1"}
    with pytest.raises(StepError, match=provider) as caught:
        build_request(endpoint, None, prompt, SAMPLING)
    assert caught.value.advice


def test_calls_that_a_server_parses_stay_in_the_text() -> None:
    call = {"function": {"name": "add", "arguments": '{"a": 1}'}}
    message = {"content": None, "tool_calls": [call]}
    answer = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    found = parse_completion({"provider": "openai"}, answer)
    assert found.text == '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'


class Adder:
    def reset(self, row: Any, seed: int) -> str:
        return ""

    def step(self, action: Any) -> tuple[str, bool]:
        return ("3" if isinstance(action, dict) else "call a tool"), False

    def score(self) -> float:
        return 0.0

    def close(self) -> None: ...


def session(**more: Any) -> EnvironmentSession:
    factory: Any = SimpleNamespace(max_concurrency=1, open=Adder, close=lambda: None)
    given: dict[str, Any] = {"factory": factory, "kind": "adder", "acts": "tools", "columns": (), "low": 0}
    given |= {"high": 1, "turns": 9, "turn_tokens": None, "reply": "{observation}", "on_error": "fail"}
    return EnvironmentSession(**{**given, "tool_role": "tool", **more})


def played(world: EnvironmentSession, text: str) -> EpisodeState:
    state = EpisodeState(row={}, seed=0, episode=Adder())
    step_episodes(world, [state], [text])
    return state


CALL = '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'


@pytest.mark.parametrize(
    ("text", "role"), [(CALL, "tool"), ("<tool_call>{</tool_call>", "tool"), ("three", "user")]
)
def test_results_of_tools_are_tool_turns(text: str, role: str) -> None:
    assert last_observation(played(session(), text))["role"] == role
    assert last_observation(played(session(tool_role="user"), text))["role"] == "user"
    assert last_observation(played(session(acts="text"), text))["role"] == "user"


def test_the_tokens_of_a_result_are_those_of_the_template(tokenizer: Any) -> None:
    """The tokens of the opening, the model's turn and the reply are the whole conversation by hand."""
    world, prompt = session(), ChatPrompt(PROMPT[:2], [TOOL], {"enable_thinking": False})
    tokens = EpisodeTokenizer(tokenizer, [], world)
    state = played(world, CALL)
    end = tokenizer.convert_tokens_to_ids("</s>")
    reply = tokens.encode_reply(state, end, prompt)
    text = tokenizer.decode(reply)
    assert "<|im_start|>user\n<tool_response>\n3\n</tool_response><|im_end|>\n<|im_start|>assistant\n" in text
    assert text.endswith("<think>\n\n</think>\n\n")  # enable_thinking applies to every turn
    opening = append_observation(prompt, "go", world)
    assert isinstance(opening, ChatPrompt)
    assert (opening.messages[-1]["content"], opening.tools) == ("what is 1\n\ngo", [TOOL])


def test_a_template_without_tool_turns_is_reported() -> None:
    made = character_tokenizer()
    made.chat_template = (
        "{% for m in messages if m.role != 'tool' %}{{ m.content }}{{ eos_token }}{% endfor %}"
    )
    world = session()
    with pytest.raises(StepError, match="does not render the results of tools") as caught:
        EpisodeTokenizer(made, [], world).encode_reply(played(world, CALL), 1, PROMPT[:2])
    assert "observation_role: user" in caught.value.advice
