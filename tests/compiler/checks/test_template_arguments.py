"""Tools and arguments of chat templates: their types, and the places that have none."""

import pytest
from tests.compiler.checks.stage_compilation import diagnostics_of, plan_of

from posttrain.compiler.checks.training_examples import MINIMAL_RECIPE

SFT = "{train: sft, model: base, data: sums.train,"
EVAL = "{eval: sft, data: sums.test,"


def messages_of(text: str) -> list[str]:
    return [one.message for one in diagnostics_of(text) if one.code == "PT0422"]


def with_column(name: str, value: str, text: str = MINIMAL_RECIPE) -> str:
    return text.replace("- split:", f'- derive: {{{name}: "{value}"}}\n      - split:')


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("tools", "'[]'", ""),
        ("tools", "['{}']", ""),
        ("tools", "1", "the column `tools` is integer, not a list of JSON schemas"),
        ("tools", "[1, 2]", "the column `tools` is list<integer>"),
        ("chat_template_kwargs", "'{}'", ""),
        ("chat_template_kwargs", "true", "the column `chat_template_kwargs` is boolean, not a mapping"),
    ],
)
def test_the_columns_have_a_type(name: str, value: str, problem: str) -> None:
    found = messages_of(with_column(name, value))
    assert all(problem in one for one in found)
    assert len(found) == (2 if problem else 0)


@pytest.mark.parametrize("stage", [SFT, EVAL])
def test_a_stage_can_set_arguments(stage: str) -> None:
    text = MINIMAL_RECIPE.replace(stage, f"{stage} chat_template_kwargs: {{enable_thinking: false}},")
    assert text != MINIMAL_RECIPE
    assert messages_of(text) == []


@pytest.mark.parametrize(
    ("argument", "help"),
    [
        ("tools: []", "column `tools`"),
        ("add_generation_prompt: true", "ready for generation"),
        ("documents: []", "does not render documents"),
    ],
)
def test_arguments_that_are_set_elsewhere_are_errors(argument: str, help: str) -> None:
    text = MINIMAL_RECIPE.replace(SFT, f"{SFT} chat_template_kwargs: {{{argument}}},")
    (found,) = [one for one in diagnostics_of(text) if one.code == "PT0422"]
    assert "cannot be set here" in found.message
    assert help in str(found.help)


def test_plain_prompts_have_no_tools_and_no_arguments() -> None:
    plain = MINIMAL_RECIPE.replace(EVAL, f"{EVAL} prompts: plain,")
    assert "would ignore the column `tools`" in messages_of(with_column("tools", "'[]'", plain))[0]
    text = plain.replace(EVAL, f"{EVAL} chat_template_kwargs: {{a: 1}},")
    assert messages_of(text) == ["plain prompts have no chat template"]


def test_only_a_vllm_endpoint_has_arguments_of_the_template() -> None:
    endpoint = "endpoints: {served: {provider: PROVIDER, model: m, base_url: https://a.test/v1}}\nstages:"
    text = MINIMAL_RECIPE.replace("stages:", endpoint).replace(
        EVAL, "{eval: served, data: sums.test, chat_template_kwargs: {enable_thinking: false},"
    )
    found = {
        provider: [
            one.message
            for one in diagnostics_of(text.replace("PROVIDER", provider))
            if "arguments of the chat template" in one.message
        ]
        for provider in ("vllm", "openai")
    }
    assert (len(found["vllm"]), len(found["openai"])) == (0, 1)


TOKENIZER = "tokenizer: {init: characters}"


def of_model(declared: str) -> list[str]:
    return messages_of(MINIMAL_RECIPE.replace(TOKENIZER, f"{TOKENIZER}\n    {declared}"))


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("enable_thinking: false", ""),
        ("tools: []", "`tools` cannot be set here"),
        ("eos_token: x", "`eos_token` cannot be set here"),
        ("add_generation_prompt: true", "`add_generation_prompt` cannot be set here"),
        ("if: 1", "`if` is no variable of a chat template"),
        ("none: 1", "`none` is no variable of a chat template"),
        ("enable-thinking: 1", "`enable-thinking` is no variable of a chat template"),
    ],
)
def test_a_model_can_declare_variables_of_its_template(argument: str, problem: str) -> None:
    found = of_model(f"chat_template: qwen\n    chat_template_kwargs: {{{argument}}}")
    assert found == ([problem] if problem else [])


def test_a_model_without_a_template_has_no_arguments() -> None:
    (found,) = of_model("chat_template_kwargs: {enable_thinking: false}")
    assert "no chat template" in found
    assert of_model("tags: {answer: [<a>, </a>]}\n    chat_template_kwargs: {}") == []


def test_the_arguments_of_a_model_change_only_the_keys_that_depend_on_it() -> None:
    text = MINIMAL_RECIPE.replace(TOKENIZER, f"{TOKENIZER}\n    chat_template: qwen")
    plans = [
        plan_of(text.replace("chat_template: qwen", f"chat_template: qwen\n    {declared}"))
        for declared in ("", "chat_template_kwargs: {}", "chat_template_kwargs: {enable_thinking: false}")
    ]
    keys = [{step.id: step.key for step in plan.steps} for plan in plans]
    assert keys[0] == keys[1]
    changed = {name for name in keys[0] if keys[0][name] != keys[2][name]}
    assert changed == {"models.base", "sft", "check"}
    assert "chat_template_kwargs" not in plans[0].step("models.base").params
