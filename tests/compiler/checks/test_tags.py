"""Tests tags, chat templates and end tokens: what rewards look for, and what models can generate."""

import pytest

from posttrain.compiler.checks.tags import missing_characters
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.model_declaration import Tokenizer
from posttrain.spec.validation import parse_declaration

_TOKENIZER = "tokenizer: {init: characters}"
_COMPLETION = "{of: completion, to: answer}"
ENDS = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"


def messages_by_code(text: str, template: str = ENDS) -> dict[str, str]:
    """Return the messages of these checks by code."""
    files = {"chat.jinja": template.encode()}
    source = SourceFile("recipe.yaml", text.encode())
    outcome = compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=files.get))
    return {
        d.code: d.message for d in outcome.diagnostics if d.code in ("PT0811", "PT0812", "PT0813", "PT0814")
    }


def recipe(model: str = "", tokenizer: str = "init: characters", of: str = "completion") -> str:
    """Return the minimal recipe whose reward looks for text between <answer> and </answer>."""
    between = f"{{between: {{of: {of}, open: <answer>, close: </answer>}}}}"
    return minimal_recipe(
        (_TOKENIZER, f"tokenizer: {{{tokenizer}}}{model}"),
        (_COMPLETION, f"{{of: {between}, to: answer}}"),
    )


DIGITS = 'init: characters, alphabet: "0123456789"'


@pytest.mark.parametrize(
    ("text", "tokenizer", "lacking"),
    [
        ("<a>", {"alphabet": "a"}, "<>"),
        ("<a>", {"alphabet": "<a>"}, ""),
        ("<a>", {"alphabet": "", "added_tokens": ["<a>"]}, ""),
        ("<a><b>", {"alphabet": "b<>", "added_tokens": ["<a>"]}, ""),
        ("aba", {"alphabet": "", "added_tokens": ["a"]}, "b"),
        ("abab", {"alphabet": "", "added_tokens": ["a", "ab"]}, ""),
    ],
)
def test_what_a_tokenizer_of_characters_lacks(text: str, tokenizer: dict[str, object], lacking: str) -> None:
    given = parse_declaration(Tokenizer, {"init": "characters", **tokenizer})
    assert missing_characters(text, given) == lacking


def test_another_tokenizer_is_not_judged() -> None:
    assert missing_characters("<日本>", parse_declaration(Tokenizer, {"from": "org/name"})) == ""


def test_a_tag_outside_the_alphabet_is_never_written() -> None:
    assert messages_by_code(recipe(tokenizer=DIGITS)) == {
        "PT0811": "`base` can never generate `</answer>`: its tokenizer has no < / a n s w e r >"
    }
    assert messages_by_code(recipe(tokenizer=DIGITS + ", added_tokens: [<answer>, </answer>]")) == {}
    assert messages_by_code(recipe()) == {}


def test_a_piece_of_a_column_is_no_tag_of_the_model() -> None:
    assert messages_by_code(recipe(tokenizer=DIGITS, of="answer")) == {}


def test_a_chain_of_nodes_is_followed_to_the_completion() -> None:
    assert "PT0811" in messages_by_code(
        recipe(tokenizer=DIGITS, of="{after: {of: completion, separator: '='}}")
    )


@pytest.mark.parametrize(
    ("model", "tokenizer", "said"),
    [
        ("\n    tags: {answer: [<solution>, </solution>]}", "init: characters", "other tags"),
        ("\n    tags: {answer: [<Answer>, </Answer>]}", "init: characters", "other tags"),
        ("\n    tags: {answer: [<answer>, </answer>]}", "init: characters", ""),
        ("", "init: characters, added_tokens: [<answers>, </answers>]", "other tags"),
        ("", "init: characters, added_tokens: [<think>, </think>]", ""),
        ("", "init: characters, added_tokens: [<answer>]", ""),
    ],
)
def test_tags_agree_with_what_the_model_is_told(model: str, tokenizer: str, said: str) -> None:
    messages = messages_by_code(recipe(model, tokenizer))
    assert ("PT0812" in messages) == bool(said)
    assert said in messages.get("PT0812", "")


@pytest.mark.parametrize(
    ("template", "reported"),
    [
        (ENDS + "{# <answer> </answer> #}", False),
        (ENDS + "{# <Answer> </Answer> #}", True),
        (ENDS + "{# <tool_call> </tool_call> #}", False),
    ],
)
def test_tags_agree_with_those_in_the_template(template: str, reported: bool) -> None:
    assert ("PT0812" in messages_by_code(recipe("\n    chat_template: chat.jinja"), template)) == reported


WITH_TEMPLATE = "\n    chat_template: chat.jinja"


@pytest.mark.parametrize(
    ("template", "reported"),
    [
        (ENDS, False),
        ("{{ messages }}", True),
        ("{{ messages }}<|im_end|>", True),  # not a token of this tokenizer
        ("{{ messages }}<|end|>", False),
    ],
)
def test_a_template_that_never_ends_a_turn(template: str, reported: bool) -> None:
    assert ("PT0813" in messages_by_code(recipe(WITH_TEMPLATE), template)) == reported


def test_a_template_that_nothing_is_taught_by_may_go_on() -> None:
    text = recipe(WITH_TEMPLATE)
    assert "PT0813" in messages_by_code(text, "{{ messages }}")
    assert "PT0813" not in messages_by_code(
        text.replace("data: sums.train,", "data: sums.train, prompts: plain,"), ""
    )
    untaught = text.replace(
        "  sft: {train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4}}\n", ""
    )
    assert "PT0813" not in messages_by_code(untaught.replace("eval: sft", "eval: base"), "{{ messages }}")


def test_a_published_model_ends_in_its_own_way() -> None:
    published = recipe(WITH_TEMPLATE).replace(
        "    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}\n   "
        " tokenizer: {init: characters}\n",
        "    from: Qwen/Qwen2.5-0.5B\n",
    )
    assert "PT0813" not in messages_by_code(published, "{{ messages }}<|im_end|>")
    assert "PT0813" in messages_by_code(published, "{{ messages }}")


STEPS = "    steps:\n"
CHAT = """\
      - chat: {turns: [{user: prompt}, {assistant: completion}]}
      - select: [prompt, answer, messages]
"""


@pytest.mark.parametrize(
    ("template", "params", "reported"),
    [
        (ENDS, "", True),
        (ENDS, "loss_on: all, ", False),
        ("{% generation %}{{ messages[0].content }}{{ eos_token }}{% endgeneration %}", "", False),
        ("qwen3_chat_template", "", False),
        ("smolvlm_chat_template", "", False),
    ],
)
def test_a_template_without_marks_that_trl_does_not_know_is_an_error(
    template: str, params: str, reported: bool
) -> None:
    """Otherwise the training fails after all earlier stages."""
    from trl import chat_template_utils

    text = minimal_recipe(
        (_TOKENIZER, f"tokenizer: {{init: characters}}{WITH_TEMPLATE}"),
        (STEPS, STEPS + CHAT),
        ("params: {epochs: 1", f"params: {{{params}epochs: 1"),
    )
    source = getattr(chat_template_utils, template, template)
    outcome = compile_recipe(
        CompileRequest(
            source=SourceFile("recipe.yaml", text.encode()),
            catalog=CATALOG,
            read={"chat.jinja": source.encode()}.get,
        )
    )
    found = [(one.code, one.severity) for one in outcome.diagnostics if one.code == "PT0814"]
    assert found == ([("PT0814", "error")] if reported else [])
