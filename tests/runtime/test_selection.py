"""--only, --from, --until, --skip: which steps a run carries out, and which it refuses to begin."""

import re
from pathlib import Path

import pytest
from tests.recipe_command import TINY, call

from posttrain.cli.loading import compiled
from posttrain.runtime.execution.selection import Selection, Unselectable, Wish, check, select
from posttrain.spec.plan import Plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    outcome, _ = compiled(TINY / "recipe.yaml", (), ())
    assert outcome.plan is not None
    return outcome.plan


ALL = ["models.base", "datasets.sums", "sft", "before", "grpo", "after", "ship", "export"]


@pytest.mark.parametrize(
    ("wish", "steps"),
    [
        (Wish(), ALL),
        (Wish(only=["sft"]), ["models.base", "datasets.sums", "sft"]),
        (Wish(only=["ship", "export"]), ["ship", "export"]),
        (Wish(first=["grpo"]), ["datasets.sums", "grpo", "after", "ship", "export"]),
        (Wish(last=["before"]), ["models.base", "datasets.sums", "sft", "before"]),
        (Wish(first=["grpo"], last=["after"]), ["datasets.sums", "grpo", "after"]),
        (Wish(skip=["before", "export"]), [id for id in ALL if id not in ("before", "export")]),
        (Wish(only=["sft"], skip=["models.base"]), ["datasets.sums", "sft"]),
        # The export stands behind the gate, and so depends on it and on what it reads.
        (Wish(last=["export"]), [id for id in ALL if id != "before"]),
    ],
)
def test_what_a_wish_means(plan: Plan, wish: Wish, steps: list[str]) -> None:
    assert select(plan, wish).steps == set(steps)


def test_a_wrong_name_is_told_with_the_right_one(plan: Plan) -> None:
    with pytest.raises(Unselectable, match=r"no stage `gropo`; did you mean `grpo`\?"):
        select(plan, Wish(first=["gropo"]))


def test_wishes_that_exclude_each_other_are_told(plan: Plan) -> None:
    with pytest.raises(Unselectable, match="no stage is left"):
        select(plan, Wish(first=["export"], last=["sft"]))


def refusal(plan: Plan, selection: Selection, made: set[str]) -> str:
    with pytest.raises(Unselectable) as told:
        check(plan, selection, lambda step: step.id in made)
    return str(told.value)


def test_inputs_must_be_made_or_selected(plan: Plan) -> None:
    chosen = select(plan, Wish(only=["grpo"]))
    assert "`grpo` reads `sft`" in refusal(plan, chosen, {"datasets.sums"})
    check(plan, chosen, lambda step: step.id == "sft")
    check(plan, chosen, lambda step: step.id == "grpo")
    check(plan, select(plan, Wish()), lambda _: False)


def test_a_gate_holds_unless_it_is_skipped_by_name(plan: Plan) -> None:
    made = {"grpo", "models.base"}
    told = refusal(plan, select(plan, Wish(only=["export"])), made)
    assert "behind the gate `ship`" in told
    assert "--skip ship" in told
    check(plan, select(plan, Wish(only=["export"], skip=["ship"])), lambda step: step.id in made)


def test_a_skipped_input_is_told_as_such(plan: Plan) -> None:
    told = refusal(plan, select(plan, Wish(skip=["sft"])), set())
    assert "leave --skip sft away" in told


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
    outcome, _ = compiled(tmp_path / "recipe.yaml", (), ())
    assert outcome.plan is not None, outcome.diagnostics
    assert select(outcome.plan, Wish(only=["write"])).steps == {"write@word=a", "write@word=b"}
    assert select(outcome.plan, Wish(first=["write@word=b"])).steps == {"write@word=b", "read@word=b"}


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
    refused = call("run", tmp_path, *home, "--only", "two")
    assert refused.returncode == 2
    assert "`two` reads `one`" in refused.stderr
    assert not (tmp_path / "home" / "runs").exists(), "something was begun"

    assert call("run", tmp_path, *home, "--until", "two").returncode == 0
    assert states(tmp_path) == {"one": "done", "two": "done", "three": "skipped"}
    planned = call("run", tmp_path, *home, "--from", "two", "--dry-run").stdout
    assert re.search(r"one +script +skipped", planned)
    assert call("run", tmp_path, *home, "--from", "two").returncode == 0
    assert states(tmp_path) == {"one": "skipped", "two": "cached", "three": "done"}


def states(folder: Path) -> dict[str, str]:
    lines = call("status", "--home", folder / "home").stdout.splitlines()[2:]
    return {line.split()[0]: line.split()[1] for line in lines}


GATED = (
    (TINY / "recipe.yaml").read_text().partition("stages:")[0]
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
    (tmp_path / "chat.jinja").write_bytes((TINY / "chat.jinja").read_bytes())
    home = ("--home", tmp_path / "home")
    whole = call("run", tmp_path, *home)
    assert whole.returncode == 1, whole.stdout + whole.stderr
    assert states(tmp_path)["after"] == "held"
    # Left out without being named, it still holds: its verdict is known.
    assert call("run", tmp_path, *home, "--only", "after").returncode == 1
    assert states(tmp_path)["after"] == "held"
    passed = call("run", tmp_path, *home, "--skip", "ship")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert states(tmp_path) | {"models.base": "", "datasets.sums": ""} == {
        "models.base": "",
        "datasets.sums": "",
        "before": "cached",
        "ship": "skipped",
        "after": "done",
    }
