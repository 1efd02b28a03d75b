"""--only, --from, --until, --skip: the steps that a run selects, and the selections that it rejects."""

import re
from pathlib import Path

import pytest
from tests.recipe_command import TINY_RECIPE, run_command

from posttrain.cli.compile import compile_file
from posttrain.runtime.execution.run_errors import SelectionError
from posttrain.runtime.execution.selection import Selection, SelectionOptions, check_selection, select_steps
from posttrain.spec.plan import Plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    outcome, _ = compile_file(TINY_RECIPE / "recipe.yaml", (), ())
    assert outcome.plan is not None
    return outcome.plan


ALL = ["models.base", "datasets.sums", "sft", "before", "grpo", "after", "ship", "export"]


@pytest.mark.parametrize(
    ("wish", "steps"),
    [
        (SelectionOptions(), ALL),
        (SelectionOptions(only=["sft"]), ["models.base", "datasets.sums", "sft"]),
        (SelectionOptions(only=["ship", "export"]), ["ship", "export"]),
        (SelectionOptions(from_stages=["grpo"]), ["datasets.sums", "grpo", "after", "ship", "export"]),
        (SelectionOptions(until_stages=["before"]), ["models.base", "datasets.sums", "sft", "before"]),
        (SelectionOptions(from_stages=["grpo"], until_stages=["after"]), ["datasets.sums", "grpo", "after"]),
        (SelectionOptions(skip=["before", "export"]), [id for id in ALL if id not in ("before", "export")]),
        (SelectionOptions(only=["sft"], skip=["models.base"]), ["datasets.sums", "sft"]),
        # The export depends on the gate, and thus on the inputs of the gate.
        (SelectionOptions(until_stages=["export"]), [id for id in ALL if id != "before"]),
    ],
)
def test_selected_steps(plan: Plan, wish: SelectionOptions, steps: list[str]) -> None:
    assert select_steps(plan, wish).steps == set(steps)


def test_unknown_stage_suggests_a_name(plan: Plan) -> None:
    with pytest.raises(SelectionError, match=r"no stage `gropo`; did you mean `grpo`\?"):
        select_steps(plan, SelectionOptions(from_stages=["gropo"]))


def test_contradictory_selection_is_rejected(plan: Plan) -> None:
    with pytest.raises(SelectionError, match="no stage to run"):
        select_steps(plan, SelectionOptions(from_stages=["export"], until_stages=["sft"]))


def selection_error(plan: Plan, selection: Selection, made: set[str]) -> str:
    with pytest.raises(SelectionError) as raised:
        check_selection(plan, selection, lambda step: step.id in made)
    return str(raised.value)


def test_inputs_must_be_made_or_selected(plan: Plan) -> None:
    chosen = select_steps(plan, SelectionOptions(only=["grpo"]))
    assert "`grpo` reads `sft`" in selection_error(plan, chosen, {"datasets.sums"})
    check_selection(plan, chosen, lambda step: step.id == "sft")
    check_selection(plan, chosen, lambda step: step.id == "grpo")
    check_selection(plan, select_steps(plan, SelectionOptions()), lambda _: False)


def test_a_gate_holds_unless_it_is_skipped_by_name(plan: Plan) -> None:
    made = {"grpo", "models.base"}
    message = selection_error(plan, select_steps(plan, SelectionOptions(only=["export"])), made)
    assert "depends on the gate `ship`" in message
    assert "--skip ship" in message
    check_selection(
        plan,
        select_steps(plan, SelectionOptions(only=["export"], skip=["ship"])),
        lambda step: step.id in made,
    )


def test_skipped_input_is_reported(plan: Plan) -> None:
    message = selection_error(plan, select_steps(plan, SelectionOptions(skip=["sft"])), set())
    assert "remove --skip sft" in message


LEGS = """\
recipe: 1
name: legs
matrix: {word: [a, b]}
stages:
  write: {script: [sh, -c, "echo ${matrix.word} > $OUT/word"]}
  read: {script: [sh, -c, "cat $INPUT_IT/word > $OUT/word"], inputs: {it: write}}
"""


def test_the_name_of_a_stage_means_every_leg_and_the_name_of_a_leg_that_one(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(LEGS)
    outcome, _ = compile_file(tmp_path / "recipe.yaml", (), ())
    assert outcome.plan is not None, outcome.diagnostics
    assert select_steps(outcome.plan, SelectionOptions(only=["write"])).steps == {
        "write@word=a",
        "write@word=b",
    }
    assert select_steps(outcome.plan, SelectionOptions(from_stages=["write@word=b"])).steps == {
        "write@word=b",
        "read@word=b",
    }


SCRIPTS = """\
recipe: 1
name: programs
stages:
  one: {script: [sh, -c, "echo 1 > $OUT/n"]}
  two: {script: [sh, -c, "cat $INPUT_N/n > $OUT/n"], inputs: {n: one}}
  three: {script: [sh, -c, "cat $INPUT_N/n > $OUT/n"], inputs: {n: two}}
"""


def test_a_run_of_a_part_leaves_the_rest_alone(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(SCRIPTS)
    home = ("--home", tmp_path / "home")
    refused = run_command("run", tmp_path, *home, "--only", "two")
    assert refused.returncode == 2
    assert "`two` reads `one`" in refused.stderr
    assert not (tmp_path / "home" / "runs").exists(), "something was begun"

    assert run_command("run", tmp_path, *home, "--until", "two").returncode == 0
    assert states(tmp_path) == {"one": "done", "two": "done", "three": "skipped"}
    planned = run_command("run", tmp_path, *home, "--from", "two", "--dry-run").stdout
    assert re.search(r"one +script +skipped", planned)
    assert run_command("run", tmp_path, *home, "--from", "two").returncode == 0
    assert states(tmp_path) == {"one": "skipped", "two": "cached", "three": "done"}


def states(folder: Path) -> dict[str, str]:
    lines = run_command("status", "--home", folder / "home").stdout.splitlines()[2:]
    return {line.split()[0]: line.split()[1] for line in lines}


GATED = (
    (TINY_RECIPE / "recipe.yaml").read_text().partition("stages:")[0]
    + """\
stages:
  before:
    {eval: base, data: sums.test, reward: solution, metrics: {format: format}, sampling: {max_tokens: 6}}
  ship: {gate: [{metric: before.format, at_least: 0.7}], on_inconclusive: stop}
  after: {script: [sh, -c, "echo out > $OUT/x"]}
"""
)


@pytest.mark.slow
def test_a_gate_that_does_not_open_is_passed_only_by_name(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(GATED)
    (tmp_path / "chat.jinja").write_bytes((TINY_RECIPE / "chat.jinja").read_bytes())
    home = ("--home", tmp_path / "home")
    whole = run_command("run", tmp_path, *home)
    assert whole.returncode == 1, whole.stdout + whole.stderr
    assert states(tmp_path)["after"] == "held"
    # A gate outside the selection still applies: its verdict is known.
    assert run_command("run", tmp_path, *home, "--only", "after").returncode == 1
    assert states(tmp_path)["after"] == "held"
    passed = run_command("run", tmp_path, *home, "--skip", "ship")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert states(tmp_path) | {"models.base": "", "datasets.sums": ""} == {
        "models.base": "",
        "datasets.sums": "",
        "before": "cached",
        "ship": "skipped",
        "after": "done",
    }
