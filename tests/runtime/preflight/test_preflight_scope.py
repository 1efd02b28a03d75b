"""Which steps are checked, where a finding points, and what a run does with the findings."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.recipe_command import run_command
from tests.runtime.preflight.local_services import LocalServices
from tests.runtime.preflight.preflight_recipe import HEAD, MACHINE, check, compile_plan

from posttrain.runtime.execution.run_errors import PreflightFailed
from posttrain.runtime.execution.run_observer import RunObserver
from posttrain.runtime.execution.run_plan import RunOptions, run_plan
from posttrain.runtime.installed_stack import installed_distributions
from posttrain.runtime.preflight.finding import Finding
from posttrain.runtime.preflight.run_preflight import run_preflight
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.runs import list_runs

RECIPE = """\
recipe: 1
name: scope
stages:
  first: {script: [sh, -c, "echo 1 > $OUT/n"]}
  second: {script: [sh, -c, "echo 2 > $OUT/n"], memory_gb: 900}
"""
ENDPOINT = """\
endpoints:
  judge: {provider: vllm, model: tiny, base_url: "http://127.0.0.1:9/v1"}
rewards:
  long: {reads: {completion: text}, returns: {length: completion}}
stages:
  more: {generate: judge, data: sums, sampling: {max_tokens: 4}}
  length: {eval: judge, data: sums, reward: long, metrics: {long: {mean: returns}}}
"""


class Recorder(RunObserver):
    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def on_findings(self, findings: Sequence[Finding]) -> None:
        self.findings += findings


def test_a_run_with_an_error_starts_no_step(tmp_path: Path) -> None:
    plan, home, observer = compile_plan(tmp_path, RECIPE), Home(tmp_path / "home"), Recorder()
    small = RunOptions(
        recipe=tmp_path / "recipe.yaml", machine=MACHINE.__class__(cpus=8, memory_gb=1.0, gpus=())
    )
    with pytest.raises(PreflightFailed, match=r"recipe.yaml:5:3: `second` requires 900 GB") as raised:
        run_plan(plan, home, small, observer)
    assert list(raised.value.findings) == observer.findings
    assert list_runs(home) == []


def test_a_warning_does_not_stop_a_run(tmp_path: Path) -> None:
    (tmp_path / "grade.py").write_text("def grade(text):\n    import no_such_library\n    return 1.0\n")
    recipe = (
        HEAD
        + 'rewards:\n  own: {reads: {completion: text}, returns: {python: {call: "grade.py:grade",'
        + " with: {text: completion}}}}\nstages:\n"
        + "  more: {generate: small, data: sums, reward: own, sampling: {max_tokens: 2}}\n"
        + '  done: {script: [sh, -c, "true"]}\n'
    )
    (tmp_path / "recipe.yaml").write_text(recipe)
    done = run_command("run", tmp_path, "--home", tmp_path / "home", "--only", "more")
    assert "warning[function]" in done.stderr
    assert "> more" in done.stdout, "it runs, and fails as the warning says"


def test_a_cached_step_needs_nothing(tmp_path: Path) -> None:
    plan, home = compile_plan(tmp_path, RECIPE), Home(tmp_path / "home")
    run_plan(plan, home, RunOptions(recipe=tmp_path / "recipe.yaml", machine=MACHINE))
    tiny = MACHINE.__class__(cpus=1, memory_gb=1.0, gpus=())
    assert run_preflight(plan, home, tmp_path, None, tiny) == ()
    assert len(run_preflight(plan, Home(tmp_path / "other"), tmp_path, None, tiny)) == 1


def test_only_the_selected_steps_are_checked(services: LocalServices, tmp_path: Path) -> None:
    assert check(tmp_path, HEAD + ENDPOINT, ["datasets.sums"]) == ()
    (one,) = check(tmp_path, HEAD + ENDPOINT, ["length"])
    assert one.steps == ("length",)


def test_the_steps_with_the_same_problem_share_a_finding(services: LocalServices, tmp_path: Path) -> None:
    (found,) = check(tmp_path, HEAD + ENDPOINT)
    assert found.steps == ("more", "length")


def test_a_finding_points_to_the_file_that_declares(services: LocalServices, tmp_path: Path) -> None:
    tmp_path.joinpath("base.yaml").write_text("endpoints:\n\n" + ENDPOINT.splitlines()[1] + "\n")
    stages = "extends: base.yaml\n" + HEAD + "rewards" + ENDPOINT.partition("rewards")[2]
    (found,) = check(tmp_path, stages)
    assert (found.place.file, found.place.line, found.place.column) == ("base.yaml", 3, 3)


def test_legs_of_a_matrix_share_a_finding(services: LocalServices, tmp_path: Path) -> None:
    legs = (
        "matrix: {tokens: [4, 8]}\n"
        + HEAD
        + ENDPOINT.replace("max_tokens: 4", 'max_tokens: "${matrix.tokens}"')
    )
    (found,) = check(tmp_path, legs)
    assert found.steps == ("more@tokens=4", "more@tokens=8", "length")


def test_plan_check_prints_the_findings(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(HEAD + ENDPOINT)
    done = run_command("plan", tmp_path, "--check", "--home", tmp_path / "home")
    assert done.returncode == 1
    assert "datasets.sums" in done.stdout
    assert "error[endpoint]: `judge` at http://127.0.0.1:9/v1 cannot be reached" in done.stderr
    assert "recipe.yaml:10:3, for more, length" in done.stderr
    assert not (tmp_path / "home").exists()
    without = run_command("plan", tmp_path, "--home", tmp_path / "home")
    assert without.returncode == 0
    assert "endpoint" not in without.stderr


def test_plan_check_as_json(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(HEAD + ENDPOINT)
    done = run_command("plan", tmp_path, "--check", "--format", "json", "--home", tmp_path / "home")
    assert done.returncode == 1
    (found,) = json.loads(done.stdout)["findings"]
    assert found["place"] == {"file": "recipe.yaml", "line": 10, "column": 3}
    assert (found["severity"], found["check"], found["steps"]) == ("error", "endpoint", ["more", "length"])
    selected = ["--only", "nothing", "--check", "--format", "json"]
    assert run_command("plan", tmp_path, *selected, "--home", tmp_path / "home").returncode == 2


def test_plan_check_without_findings(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace(", memory_gb: 900", ""))
    done = run_command("plan", tmp_path, "--check", "--home", tmp_path / "home")
    assert (done.returncode, done.stderr) == (0, "")
    assert "the checks before a run found no problem" in done.stdout
    document = run_command("plan", tmp_path, "--check", "--format", "json", "--home", tmp_path / "home")
    assert json.loads(document.stdout) == {"findings": []}


def test_rows_in_the_store_are_checked_before_the_run(tmp_path: Path) -> None:
    recipe = HEAD.replace("count: 40}}}", 'count: 40}}, steps: [{where: "length(prompt) > 100"}]}')
    recipe += "stages:\n  list: {script: [ls], inputs: {rows: sums}}\n"
    plan, home = compile_plan(tmp_path, recipe), Home(tmp_path / "home")
    run_plan(plan, home, RunOptions(recipe=tmp_path / "recipe.yaml", machine=MACHINE))
    recipe += "  tune: {train: sft, model: small, data: sums, params: {max_steps: 2, batch_size: 2}}\n"
    later = compile_plan(tmp_path, recipe)
    (found,) = run_preflight(later, home, tmp_path, None, MACHINE)
    assert (found.check, found.cause) == ("schedule", "`tune` reads `datasets.sums`, which has no rows")


def test_a_library_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = installed_distributions() - {"safetensors"}
    monkeypatch.setattr("posttrain.runtime.preflight.libraries.installed_distributions", lambda: without)
    recipe = HEAD + "stages:\n  tune: {train: sft, model: small, data: sums, params: {max_steps: 2}}\n"
    found = check(tmp_path, recipe)
    assert {one.check for one in found} == {"library"}
    assert "`models.small` requires safetensors, which " in found[0].cause


def test_a_value_from_the_command_line_does_not_move_the_declaration(
    services: LocalServices, tmp_path: Path
) -> None:
    (tmp_path / "recipe.yaml").write_text(HEAD + ENDPOINT)
    moved = ["--set", "endpoints.judge.concurrency=2", "--set", "stages.more.sampling.max_tokens=2"]
    done = run_command("plan", tmp_path, "--format", "json", "--home", tmp_path / "home", *moved)
    (step,) = (one for one in json.loads(done.stdout)["steps"] if one["id"] == "more")
    assert step["place"] == {"file": "recipe.yaml", "line": 14, "column": 3}
    assert step["places"]["endpoints.judge"] == {"file": "recipe.yaml", "line": 10, "column": 3}
