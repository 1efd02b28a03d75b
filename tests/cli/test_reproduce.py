"""`recipe reproduce`: the bytes of a repeated run, and the reason of a difference."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.recipe_command import TINY_RECIPE, run_command
from tests.runtime.scripts_recipe import RECIPE, run_text

from posttrain.cli.compile import compile_file
from posttrain.cli.main import main
from posttrain.runtime import installed_stack
from posttrain.runtime.execution.run_plan import RunOptions, run_plan
from posttrain.runtime.provenance.reproduction import StepComparison, compare_steps, describe_comparison
from posttrain.runtime.provenance.retarget_plan import retarget_plan
from posttrain.runtime.provenance.step_provenance import StepRecord, ancestors
from posttrain.runtime.store.home import Home
from posttrain.spec.pinned_versions import PINNED_VERSIONS
from posttrain.spec.plan import Plan
from posttrain.spec.product_manifest import LaunchRecord


def reproduce(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["reproduce", *map(str, arguments)])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with a finished run of programs."""
    found = Home(tmp_path / "home")
    run_text(tmp_path, RECIPE, found)
    return found


def test_a_run_is_reproduced_in_a_new_home(tmp_path: Path, home: Home) -> None:
    (run,) = home.runs.iterdir()
    target = tmp_path / "again"
    ended = reproduce(run.name, "--from-home", home.root, "--home", target)
    assert ended.exit_code == 0, ended.output
    assert ended.output.splitlines()[-3:] == [
        "count   equal",
        "double  equal",
        "reproduced: equal bytes in 2 steps, with the same launch, stack and hardware",
    ]
    assert len(list((target / "store").iterdir())) == 2
    again = reproduce(run, "--home", target)
    assert again.exit_code == 2
    assert "is not empty: its products would be reused" in again.output


def test_the_first_step_that_differs_is_named(tmp_path: Path) -> None:
    random = RECIPE.replace("echo counted;", "date +%N > $OUT/time;")
    home = Home(tmp_path / "home")
    run_text(tmp_path, random, home)
    (run,) = home.runs.iterdir()
    ended = reproduce(run, "--home", tmp_path / "again")
    assert ended.exit_code == 1
    assert ended.output.splitlines()[-1] == (
        "`count` is the first step that differs: files: time; launch, stack and hardware are equal: the step"
        " is not deterministic"
    )
    assert "double  equal" in ended.output


def test_changed_files_of_the_user_do_not_run(tmp_path: Path, home: Home) -> None:
    (run,) = home.runs.iterdir()
    (tmp_path / "words.txt").write_text("changed\n")
    ended = reproduce(run, "--home", tmp_path / "again")
    assert ended.exit_code == 1
    assert "words.txt" in ended.output


@pytest.mark.slow
def test_a_trained_model_is_reproduced_and_a_changed_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(TINY_RECIPE, tmp_path / "tiny", ignore=shutil.ignore_patterns(".recipe")))
    done = run_command("run", folder, "--until", "sft", "--home", tmp_path / "home")
    assert done.returncode == 0, done.stdout
    (run,) = (tmp_path / "home" / "runs").iterdir()
    version = installed_stack.installed_stack()["trl"]
    changed = {**installed_stack.installed_stack(), "trl": "9.9.9"}
    ended = reproduce(run, "--home", tmp_path / "first")
    assert ended.exit_code == 0, ended.output
    assert "reproduced: equal bytes in 3 steps" in ended.output
    monkeypatch.setattr(installed_stack, "installed_stack", lambda: changed)
    ended = reproduce(run, "--home", tmp_path / "second")
    assert f"sft            equal  (stack: trl {version} -> 9.9.9)" in ended.output
    assert "reproduced" not in ended.output
    assert f"equal bytes in 3 steps, although this differs: stack: trl {version} -> 9.9.9" in ended.output


# Comparison


def tiny_plan() -> Plan:
    plan = compile_file(TINY_RECIPE / "recipe.yaml", (), ())[0].plan
    assert plan is not None
    return plan


def launch(processes: int = 1, strategy: str = "single") -> LaunchRecord:
    return LaunchRecord(nodes=1, processes=processes, strategy=strategy, engine=None, micro_batch_size=None)


def record_of(contents: str, processes: int = 1, processor: str = "A", **files: str) -> StepRecord:
    return StepRecord(
        id="sft",
        key="0" * 64,
        contents=contents,
        launch=launch(processes, "single" if processes == 1 else "ddp"),
        hardware={"processor": processor},
        files=files or None,
    )


def comparison(old: StepRecord, new: StepRecord, stack: dict[str, str] | None = None) -> StepComparison:
    step = tiny_plan().step("sft")
    installed = {**installed_stack.installed_stack(), **(stack or {})}
    return compare_steps([step], {"sft": old}, {"sft": new}, installed)[0]


def test_each_reason_is_named() -> None:
    one = comparison(record_of("a", model="1", config="1"), record_of("b", 2, "B", model="2", config="1"))
    assert one.outcome == "different"
    assert describe_comparison(one) == (
        "files: model; launch: processes 1 -> 2, strategy single -> ddp; hardware: processor A -> B"
    )
    version = PINNED_VERSIONS["torch"]
    other = comparison(record_of("a"), record_of("b"), {"torch": "0.1"})
    assert other.reasons == (f"stack: torch {version} -> 0.1",)
    assert comparison(record_of("a"), record_of("a")) == StepComparison(id="sft", outcome="equal")


def test_steps_without_a_record() -> None:
    plan = tiny_plan()
    compared = compare_steps(plan.steps[:2], {}, {plan.steps[0].id: record_of("a")}, {})
    assert [one.outcome for one in compared] == ["not published", "not run"]


def test_a_retargeted_plan_has_the_keys_of_a_compilation() -> None:
    """With the libraries of another machine, as the compiler computes them."""
    from dataclasses import replace

    from posttrain.cli.compile import compile_request
    from posttrain.compiler.pipeline import compile_recipe

    stack = {**installed_stack.installed_stack(), "torch": "0.1", "trl": "0.2"}
    request = compile_request(TINY_RECIPE / "recipe.yaml", (), ())
    expected = compile_recipe(replace(request, stack=stack)).plan
    assert expected is not None
    assert retarget_plan(tiny_plan(), stack) == expected
    assert retarget_plan(tiny_plan(), installed_stack.installed_stack()) == tiny_plan()


def test_ancestors_are_all_steps_before() -> None:
    assert [step.id for step in ancestors(tiny_plan(), "grpo")] == ["models.base", "datasets.sums", "sft"]


def test_a_plan_runs_with_options_of_reproduce(tmp_path: Path) -> None:
    """A run whose recipe has moved cannot find its files."""
    home = Home(tmp_path / "home")
    (tmp_path / "words.txt").write_text("one\n")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE)
    plan = compile_file(recipe, (), ())[0].plan
    assert plan is not None
    assert run_plan(plan, home, RunOptions(recipe=recipe, report=False)).succeeded
    (run,) = home.runs.iterdir()
    (tmp_path / "words.txt").unlink()
    ended = reproduce(run, "--home", tmp_path / "again")
    assert ended.exit_code == 1
