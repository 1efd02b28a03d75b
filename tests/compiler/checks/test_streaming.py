"""Uses of a streamed dataset that need all of its rows."""

import pytest

from posttrain.compiler.pipeline import CompileResult, compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG

RECIPE = """\
recipe: 1
name: demo
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}
    tokenizer: {init: characters}
datasets:
  small: {from: {rows: [{text: a}, {text: b}]}}
  stream:
    from: {hub: {name: org/pages, revision: REVISION, columns: {page: text}, HUB}}
    steps: [STEPS]
  MORE
stages:
  sft: {train: METHOD, model: base, data: stream, params: {PARAMS}, trl: {TRL} EVALUATE}
""".replace("REVISION", "0123456789abcdef0123456789abcdef01234567")
PLAIN = {
    "HUB": "streaming: true",
    "STEPS": "rename: {page: text}",
    "MORE": "",
    "METHOD": "sft",
    "PARAMS": "max_steps: 5, batch_size: 4",
    "TRL": "",
    "EVALUATE": "",
}


def compile_changed(**changes: str) -> CompileResult:
    text = RECIPE
    for name, value in {**PLAIN, **changes}.items():
        text = text.replace(name, value)
    source = SourceFile("recipe.yaml", text.encode())
    return compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=lambda _: None))


def found(**changes: str) -> tuple[list[tuple[str, str]], bool]:
    """The code and message of each error, and whether there is a plan."""
    outcome = compile_changed(**changes)
    messages = [(one.code, one.message) for one in outcome.diagnostics if one.severity == "error"]
    return messages, outcome.plan is not None


@pytest.mark.parametrize(
    "steps",
    [
        "rename: {page: text}",
        "{where: length(page) > 3}, {derive: {text: upper(page)}}, {select: [text]}",
        "{derive: {text: \"page || ' over (the moon) select'\"}}",
        "{rename: {page: text}}, {max_length: {max_length: 100, columns: text}}",
    ],
)
def test_steps_on_single_rows_are_possible(steps: str) -> None:
    assert found(STEPS=steps) == ([], True)


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("sort: page", "sort"),
        ("dedup: page", "dedup"),
        ("sample: 10", "sample"),
        ("split: {test: 10}", "split"),
        ("mix: {small: 2}", "mix"),
        ("repeat: {times: 2}", "repeat"),
    ],
)
def test_steps_on_all_rows_are_not(step: str, name: str) -> None:
    messages, planned = found(STEPS=f"{{rename: {{page: text}}}}, {{{step.replace('page', 'text')}}}")
    assert ("PT0414", f"`{name}` needs all rows, but `stream` is streamed") in messages
    assert not planned


@pytest.mark.parametrize(
    "expression",
    [
        "row_number() over ()",
        "row_number() over /* all */ ()",
        "count(*)  OVER (partition by page)",
        "(select max(page) from rows)",
        "exists (from rows)",
        "length(page) + rows.__row",
        "rowid",
    ],
)
def test_expressions_do_not_read_other_rows(expression: str) -> None:
    messages, _ = found(STEPS=f'{{derive: {{n: "{expression}"}}}}, {{rename: {{page: text}}}}')
    assert [code for code, _ in messages] == ["PT0414"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"PARAMS": "epochs: 1, batch_size: 4"}, "the number of rows of a streamed dataset is unknown"),
        ({"PARAMS": "batch_size: 4"}, "the number of rows of a streamed dataset is unknown"),
        ({"TRL": "train_sampling_strategy: group_by_length"}, "`group_by_length` needs all rows"),
        ({"TRL": "dataloader_num_workers: 2"}, "the process of the training itself reads the rows"),
        ({"MORE": "other: {from: stream, steps: [{sample: 3}]}"}, "the dataset `other` reads all rows of"),
        (
            {"EVALUATE": ", evaluate: {eval_steps: 2, data: stream}"},
            "the stage `sft` reads all rows of `stream`",
        ),
        (
            {"METHOD": "dpo", "STEPS": "derive: {prompt: page, chosen: page, rejected: page}"},
            "`dpo` reads all rows of its data, but `stream` is streamed",
        ),
    ],
)
def test_other_uses_are_refused(changes: dict[str, str], message: str) -> None:
    messages, planned = found(**changes)
    assert any(code == "PT0415" and text.startswith(message) for code, text in messages), messages
    assert not planned


def test_an_unknown_dataset_next_to_a_streamed_one_is_an_error() -> None:
    messages, planned = found(
        EVALUATE="}\n  more: {train: sft, model: base, data: nothing, params: {epochs: 1}"
    )
    assert messages == [("PT0301", "unknown name `nothing`")]
    assert not planned


@pytest.mark.parametrize(
    ("hub", "message"),
    [
        ("window_rows: 5000", "window_rows has no effect"),
        ("streaming: true, window_rows: 10", "`10` must be at least 1000"),
        ('streaming: true, split: "train[:10]"', "split must be the name of one split"),
    ],
)
def test_parameters_of_the_source_are_checked(hub: str, message: str) -> None:
    messages, planned = found(HUB=hub)
    assert any(text.startswith(message) for _, text in messages), messages
    assert not planned


def test_the_training_uses_the_network_and_the_token() -> None:
    plan = compile_changed().plan
    assert plan is not None
    step = plan.step("sft")
    assert step.resources.network
    assert step.secrets == ("HF_TOKEN",)
