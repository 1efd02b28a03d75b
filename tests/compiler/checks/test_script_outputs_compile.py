"""References to the outputs of script stages, their lineage, columns, resources and keys."""

from typing import Any

import pytest

from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.plan import Step

CHECK = "  check: {eval: sft,"
FILES = {"make.py": b"print(1)"}
SCRIPT = "  made: {script: [python, make.py], files: [make.py], inputs: {model: sft, rows: sums.train}, %s}\n"


def compiled(outputs: str, *more: str, hardware: str = "", model: str = "sft") -> Any:
    changes = [
        (CHECK, SCRIPT % outputs + "".join(f"  {one}\n" for one in more) + f"  check: {{eval: {model},")
    ]
    if hardware:
        changes.append(("recipe: 1\n", f"recipe: 1\nhardware: {hardware}\n"))
    source = SourceFile("recipe.yaml", minimal_recipe(*changes).encode())
    return compile_recipe(
        CompileRequest(source=source, catalog=CATALOG, read=FILES.get, stack={"torch": "2", "numpy": "9"})
    )


def steps(*arguments: str, **options: str) -> dict[str, Step]:
    found = compiled(*arguments, **options)
    assert found.plan is not None, found.diagnostics
    return {step.id: step for step in found.plan.steps}


def messages(*arguments: str, **options: str) -> list[str]:
    return [f"{one.code} {one.message}; {one.help}" for one in compiled(*arguments, **options).diagnostics]


TWO = "outputs: {a: model, b: {like: model}, c: {rows: {prompt: text, completion: text}}}"


@pytest.mark.parametrize(
    ("reference", "read"),
    [("made.a", "made.a"), ("made.b", "made.b")],
)
def test_a_model_is_read_by_its_name(reference: str, read: str) -> None:
    assert steps(TWO, model=reference)["check"].inputs["model"].reference == read


def test_the_only_output_that_fits_needs_no_name() -> None:
    tune = "more: {train: sft, model: made, data: made, params: {max_steps: 2, batch_size: 4}}"
    found = steps("outputs: {m: model, c: {rows: {prompt: text, completion: text}}}", tune, model="made")
    assert found["more"].inputs["data"].reference == "made.c"
    assert found["more"].inputs["model"].reference == found["check"].inputs["model"].reference == "made.m"


def test_another_program_gets_the_whole_product_or_one_output() -> None:
    after = "after: {script: [cat], inputs: {all: made, one: made.c}}"
    inputs = steps(TWO, after)["after"].inputs
    assert (inputs["all"].reference, inputs["one"].reference) == ("made", "made.c")


@pytest.mark.parametrize(
    ("outputs", "model", "message"),
    [
        (TWO, "made", "PT0302 the stage `made` has several outputs that fit; write made.a or made.b"),
        (TWO, "made.d", "PT0301 the stage `made` has no output `d`"),
        (TWO, "made.c", "PT0302 expected a model or an endpoint, but the stage `made` produces rows"),
        (
            "outputs: {}",
            "made",
            "PT0302 expected a model or an endpoint, but the stage `made` produces files",
        ),
        (
            "outputs: {}",
            "made.a",
            "PT0302 expected a model or an endpoint, but the stage `made` produces files",
        ),
        ("outputs: {a: {like: rows}}", "made", "PT0691 the input `rows` of `made` is not a model"),
        ("outputs: {a: {like: other}}", "sft", "`like: other` of the output `a` is not one of the `inputs`"),
        ("outputs: {a: {rows: {x: int}}}", "sft", "is not a column type"),
        ("outputs: {a: {}}", "sft", "an output takes exactly one of `rows` and `like`"),
        ("outputs: {a: data}", "sft", "PT0"),
        ("gpus: 2", "sft", "PT0692 the program needs 2 GPUs, and a machine of the target has 0"),
        ("requires: [numpy >= 2]", "sft", "does not match the pattern"),
        ("args: {x: {y: 1}}", "sft", "PT0"),
    ],
)
def test_wrong_outputs_are_reported(outputs: str, model: str, message: str) -> None:
    found = messages(outputs, model=model)
    assert len(found) == 1, found
    assert message in found[0]


def test_a_file_cannot_be_in_a_folder_of_the_program() -> None:
    source = minimal_recipe((CHECK, "  made: {script: [cat], files: [outputs/x]}\n" + CHECK)).encode()
    request = CompileRequest(
        source=SourceFile("recipe.yaml", source), catalog=CATALOG, read={"outputs/x": b""}.get
    )
    assert "`outputs` is a folder of the program" in compile_recipe(request).diagnostics[0].message


def test_rows_have_the_declared_columns() -> None:
    missing = "more: {train: sft, model: sft, data: made, params: {max_steps: 2, batch_size: 4}}"
    found = messages("outputs: {c: {rows: {text2: text}}}", missing)
    assert [one[:6] for one in found] == ["PT0408"]


def test_a_model_like_an_input_has_its_size() -> None:
    hardware = "{gpus: 1xH100-80GB}"
    for outputs, known in (("outputs: {m: {like: model}}", True), ("outputs: {m: model}", False)):
        estimate = steps(outputs, hardware=hardware, model="made")["check"].estimate or {}
        assert ("seconds" in estimate) == known, estimate


def test_training_rows_are_followed_through_a_program() -> None:
    source = "outputs: {m: {like: model}}"
    text = minimal_recipe(
        (CHECK, SCRIPT % source + "  check: {eval: made,"), ("data: sums.test", "data: sums.train")
    )
    request = CompileRequest(source=SourceFile("recipe.yaml", text.encode()), catalog=CATALOG, read=FILES.get)
    assert [one.code for one in compile_recipe(request).diagnostics] == ["PT0413"]


def test_resources_and_arguments_are_in_the_plan() -> None:
    options = "gpus: 2, cpus: 3, args: {alpha: 0.5, names: [a b, 2], quick: true, slow: false}"
    step = steps(options, hardware="{gpus: 2xH100-80GB, cpus: 5}")["made"]
    assert (step.resources.gpus, step.resources.cpus) == (2, 3)
    expected = ["python", "make.py", "--alpha", "0.5", "--names", "a b", "2", "--quick"]
    assert list(step.params["command"]) == expected
    assert "needs 3 GPUs" in messages("gpus: 3", hardware="{gpus: 2xH100-80GB}")[0]


def key_of(options: str) -> str:
    return steps(options)["made"].key


def test_the_key_depends_on_everything_that_is_declared() -> None:
    base = "outputs: {c: {rows: {a: text}}}"
    others = [
        "outputs: {c: {rows: {a: integer}}}",
        "outputs: {c: model}",
        base + ", args: {x: 1}",
        base + ", requires: [torch]",
        base + ", requires: [mergekit==0.1]",
        base + ", requires: [mergekit==0.2]",
    ]
    keys = {key_of(one) for one in (base, *others)}
    assert len(keys) == len(others) + 1
    assert key_of(base + ", gpus: 0, cpus: 4") == key_of(base)  # how it runs is not what it makes
    assert steps(base + ", requires: [torch]")["made"].key_values["environment"] == {"torch": "2"}


def test_a_reader_of_another_output_has_another_key() -> None:
    assert steps(TWO, model="made.a")["check"].key != steps(TWO, model="made.b")["check"].key
