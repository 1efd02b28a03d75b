"""Tools and arguments of chat templates: their types, and the places that have none."""

import pytest
from tests.compiler.checks.stage_compilation import diagnostics_of

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
