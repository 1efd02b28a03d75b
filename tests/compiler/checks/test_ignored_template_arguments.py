"""Tools and arguments that a known chat template would ignore are errors."""

import pytest
from tests.compiler.checks.stage_compilation import diagnostics_of

from posttrain.compiler.checks.training_examples import MINIMAL_RECIPE
from posttrain.spec.chat_templates.builtin_templates import BUILTIN_TEMPLATES

TOKENIZER = "tokenizer: {init: characters}"
SFT = "{train: sft, model: base, data: sums.train,"
EVAL = "{eval: sft, data: sums.test,"
TOOLS = MINIMAL_RECIPE.replace("- split:", "- derive: {tools: \"'[]'\"}\n      - split:")


def found(text: str, template: str | None = None, **files: str) -> list[str]:
    """The message and the help of each finding, for a base model with this template."""
    if template is not None:
        text = text.replace(TOKENIZER, f"{TOKENIZER}\n    {template}")
    read = {f"{name}.jinja": content.encode() for name, content in files.items()}
    return [f"{one.message}; {one.help}" for one in diagnostics_of(text, read) if one.code == "PT0819"]


@pytest.mark.parametrize("name", BUILTIN_TEMPLATES)
def test_tools_need_a_template_that_renders_them(name: str) -> None:
    problems = found(TOOLS, f"chat_template: {name}")
    if BUILTIN_TEMPLATES[name].renders_tools:
        assert problems == []
        return
    # The training and the eval read the column.
    assert len(problems) == 2
    assert f"the template `{name}` of `base` does not render the column `tools`" in problems[0]


def test_the_template_of_tags_has_no_tools() -> None:
    assert len(found(TOOLS, "tags: {answer: [<a>, </a>]}")) == 2


@pytest.mark.parametrize(
    ("text", "ignored"),
    [
        ("{{ tools | tojson }}{{ messages[0].content }}", False),
        ("{# tools are not rendered #}{{ messages[0].content }}", True),
    ],
)
def test_a_file_names_the_tools_outside_of_comments(text: str, ignored: bool) -> None:
    assert bool(found(TOOLS, "chat_template: own.jinja", own=text)) == ignored


def test_held_out_rows_are_read_too() -> None:
    text = TOOLS.replace("data: sums.train", "data: plain.train").replace(
        "datasets:",
        "datasets:\n  plain: {from: {arithmetic: {digits: 1, count: 9}}, steps: [split: {test: 1}]}",
    )
    text = text.replace(
        SFT.replace("sums", "plain"),
        SFT.replace("sums", "plain") + " evaluate: {data: sums.test, eval_steps: 1},",
    )
    assert len(found(text, "chat_template: tulu")) == 2


def test_rows_without_any_tools_need_no_such_template() -> None:
    text = MINIMAL_RECIPE.replace("- split:", '- derive: {other: "1"}\n      - split:')
    assert found(text, "chat_template: gemma") == []


@pytest.mark.parametrize("stage", [SFT, EVAL])
def test_a_misspelt_argument_of_a_stage_is_an_error(stage: str) -> None:
    text = MINIMAL_RECIPE.replace(stage, f"{stage} chat_template_kwargs: {{enable_thinkin: false}},")
    (said,) = found(text, "chat_template: qwen")
    assert "does not read `enable_thinkin`; did you mean `enable_thinking`?" in said
    assert found(text.replace("enable_thinkin:", "enable_thinking:"), "chat_template: qwen") == []
    (said,) = found(text, "chat_template: tulu")
    assert "remove the argument" in said


def test_the_template_of_a_pretrained_model_is_not_known() -> None:
    text = TOOLS.replace(
        MINIMAL_RECIPE[MINIMAL_RECIPE.index("base:") : MINIMAL_RECIPE.index("datasets:")],
        "base: {from: example/model}\n",
    )
    assert found(text) == []


@pytest.mark.parametrize(
    ("template", "argument", "said"),
    [
        ("chat_template: qwen", "enable_thinking", ""),
        (
            "chat_template: qwen",
            "enable_thinkin",
            "the template `qwen` of `base` does not read `enable_thinkin`; did",
        ),
        ("chat_template: zephyr", "enable_thinking", "the template `zephyr` of `base` does not read"),
        ("chat_template: own.jinja", "mode", ""),
        ("chat_template: own.jinja", "mood", "the template `own.jinja` of `base` does not read `mood`"),
        ("tags: {answer: [<a>, </a>]}", "mode", "the template of `tags` of `base` does not read `mode`"),
        ("# the default", "preserve_thinking", "the template `chatml` of `base` does not read"),
    ],
)
def test_the_template_of_a_model_reads_its_arguments(template: str, argument: str, said: str) -> None:
    text = MINIMAL_RECIPE.replace(EVAL, f"{EVAL} prompts: chat,")
    declared = f"{template}\n    chat_template_kwargs: {{{argument}: false}}"
    problems = found(text, declared, own="{{ messages[0].content }}{{ mode }}{# mood #}")
    assert len(problems) == bool(said)
    assert said in "".join(problems)


def test_the_finding_is_at_the_argument_of_the_model() -> None:
    declared = f"{TOKENIZER}\n    chat_template: zephyr\n    chat_template_kwargs: {{enable_thinking: false}}"
    text = MINIMAL_RECIPE.replace(TOKENIZER, declared)
    (one,) = [one for one in diagnostics_of(text) if one.code == "PT0819"]
    line = text.splitlines()[one.span.line - 1]
    assert line[one.span.column - 1 :].startswith(("enable_thinking", "false"))
