"""The chat template of a model: built-in, a file, or the default of a model with random weights."""

from typing import Any

import pytest

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.models.character_tokenizer import build_character_tokenizer
from posttrain.spec.chat_templates.builtin_templates import BUILTIN_TEMPLATES, character_vocabulary

_TOKENIZER = "tokenizer: {init: characters}"
_STEPS = "    steps:\n"
_MESSAGES = (
    _STEPS,
    _STEPS
    + "      - chat: {turns: [{user: prompt}, {assistant: completion}]}\n"
    + "      - select: [prompt, answer, messages]\n",
)
_HUB = "tokenizer: {from: org/name, revision: %s}" % ("a" * 40)


def compiled(text: str) -> Any:
    files = {"chat.jinja": b"{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"}
    source = SourceFile("recipe.yaml", text.encode())
    return compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=files.get))


def model_params(text: str) -> dict[str, Any]:
    outcome = compiled(text)
    assert outcome.plan is not None, [d.message for d in outcome.diagnostics]
    return next(step.params for step in outcome.plan.steps if step.kind == "model")


def with_template(name: str) -> str:
    return minimal_recipe((_TOKENIZER, f'{_TOKENIZER}\n    chat_template: "{name}"'))


@pytest.mark.parametrize("name", BUILTIN_TEMPLATES)
def test_the_plan_has_the_digest_of_a_built_in_template(name: str) -> None:
    params = model_params(with_template(name))
    assert params["builtin_template"] == {
        "name": name,
        "sha256": BUILTIN_TEMPLATES[name].sha256,
        "fallback": False,
    }
    assert params["chat_template"] is None


def test_each_built_in_template_gives_another_key() -> None:
    plans = [compiled(with_template(name)).plan for name in BUILTIN_TEMPLATES]
    keys = {step.key for plan in plans for step in plan.steps if step.kind == "model"}
    assert len(keys) == len(BUILTIN_TEMPLATES)


@pytest.mark.parametrize(
    ("name", "message", "help"),
    [
        ("chat-ml", "there is no chat template `chat-ml`", "did you mean `chatml`?"),
        ("qwen3", "there is no chat template `qwen3`", "did you mean `qwen`?"),
        ("phi_3", "there is no chat template `phi_3`", "built-in templates: chatml, gemma, llama3"),
        ("tokenizer_default", "there is no chat template `tokenizer_default`", "remove `chat_template`"),
        ("chat.txt", "`chat.txt` is not a chat template", "ends in .jinja"),
        ("./chatml", "`./chatml` is not a chat template", "ends in .jinja"),
        (
            "{% for m in messages %}",
            "`chat_template` is the text of a template",
            "save the template in a file",
        ),
    ],
)
def test_another_name_is_refused(name: str, message: str, help: str) -> None:
    found = [d for d in compiled(with_template(name)).diagnostics if d.code == "PT0818"]
    assert [d.message for d in found] == [message]
    assert help in (found[0].help or "")


def test_a_file_that_is_missing_is_reported_as_such() -> None:
    found = [d for d in compiled(with_template("absent.jinja")).diagnostics if d.severity == "error"]
    assert [d.code for d in found] == ["PT0409"]


def test_a_random_model_without_conversations_has_no_template() -> None:
    assert "builtin_template" not in model_params(MINIMAL_RECIPE)


@pytest.mark.parametrize(
    "replacement",
    [_MESSAGES, ("train: sft,", "train: sft, prompts: chat,")],
    ids=["messages", "prompts_chat"],
)
def test_a_random_model_with_conversations_has_chatml(replacement: tuple[str, str]) -> None:
    params = model_params(minimal_recipe(replacement))
    assert params["builtin_template"]["name"] == "chatml"
    assert params["builtin_template"]["fallback"] is False


def test_the_default_is_the_same_model_as_the_named_template() -> None:
    named = minimal_recipe((_TOKENIZER, f"{_TOKENIZER}\n    chat_template: chatml"), _MESSAGES)
    assert model_params(named) == model_params(minimal_recipe(_MESSAGES))


def test_the_template_of_a_pretrained_tokenizer_takes_precedence() -> None:
    params = model_params(minimal_recipe((_TOKENIZER, _HUB), _MESSAGES))
    assert params["builtin_template"]["fallback"] is True


@pytest.mark.parametrize("own", ["chat_template: chat.jinja", "tags: {answer: [<a>, </a>]}"])
def test_a_template_of_the_recipe_is_the_only_one(own: str) -> None:
    text = minimal_recipe((_TOKENIZER, f"{_TOKENIZER}\n    {own}"), _MESSAGES)
    outcome = compiled(text)
    if outcome.plan is None:  # the file has no generation markers
        assert [d.code for d in outcome.diagnostics if d.severity == "error"] == ["PT0814"]
    else:
        assert "builtin_template" not in model_params(text)


@pytest.mark.parametrize("name", [None, *BUILTIN_TEMPLATES])
@pytest.mark.parametrize("alphabet", ["0123456789", "aab\u00e9 \n"])
def test_the_compiler_knows_the_size_of_the_vocabulary(name: str | None, alphabet: str) -> None:
    template = BUILTIN_TEMPLATES[name] if name else None
    words = ("<think>", "<|im_start|>", "<answer>", "<answer>")
    expected = len(build_character_tokenizer(alphabet, words, template))
    assert len(character_vocabulary(alphabet, words, template)) == expected
