"""`recipe diff`: what changed, which steps must run again, and the cost."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.recipe_command import TINY_RECIPE, run_command

from posttrain.cli.compile import compile_file
from posttrain.cli.main import main
from posttrain.spec.plan import plan_to_json


def diff(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["diff", *(str(argument) for argument in arguments)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the tiny recipe, with an empty home."""
    return Path(shutil.copytree(TINY_RECIPE, tmp_path / "tiny", ignore=shutil.ignore_patterns(".recipe")))


def diff_json(*arguments: str | Path) -> dict[str, Any]:
    ended = diff(*arguments, "--format", "json")
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.output)


def changes(found: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {".".join(map(str, c["path"])): (c.get("old", "-"), c.get("new", "-")) for c in found["changes"]}


def step_fates(found: dict[str, Any]) -> dict[str, str]:
    return {step["id"]: step["why"] for step in found["steps"]}


def edit_copy(folder: Path, old: str, new: str) -> Path:
    """A copy of the recipe with one change, in another folder."""
    copy = Path(shutil.copytree(folder, folder.with_name("edited")))
    text = (copy / "recipe.yaml").read_text()
    assert old in text
    (copy / "recipe.yaml").write_text(text.replace(old, new, 1))
    return copy


def test_a_recipe_does_not_differ_from_itself(folder: Path) -> None:
    ended = diff(folder, folder, "--exit-code", "--home", folder / "home")
    assert (ended.exit_code, ended.output) == (0, "no difference\n")
    assert diff_json(folder, folder)["same"] is True


def test_a_changed_parameter_reruns_its_step_and_all_downstream_steps(folder: Path) -> None:
    arguments = (
        folder,
        folder,
        "--set",
        "stages.grpo.params.learning_rate=5.0e-4",
        "--home",
        folder / "home",
    )
    found = diff_json(*arguments)
    assert changes(found) == {"stages.grpo.params.learning_rate": (1.0e-3, 5.0e-4)}
    assert step_fates(found) == {
        "grpo": "changed",
        "after": "downstream",
        "ship": "downstream",
        "export": "downstream",
    }
    assert found["unchanged_count"] == 4
    assert {step["id"]: step["changed_inputs"] for step in found["steps"]}["ship"] == ["after"]
    ended = diff(*arguments, "--exit-code")
    assert ended.exit_code == 2
    assert "~ stages.grpo.params.learning_rate: 0.001 -> 0.0005" in ended.output
    assert ended.output.splitlines()[-1].startswith("4 steps to run again, 4 unchanged")


def test_a_change_of_speed_alone_reruns_nothing(folder: Path) -> None:
    found = diff_json(
        folder, folder, "--set", "stages.sft.params.micro_batch_size=4", "--home", folder / "home"
    )
    assert changes(found) == {"stages.sft.params.micro_batch_size": ("-", 4)}
    assert found["steps"] == []
    assert found["same"] is False
    shown = diff(folder, folder, "--set", "stages.sft.params.micro_batch_size=4", "--home", folder / "home")
    assert shown.output.splitlines()[-1] == "no step must run again"


def test_the_content_of_a_file_is_a_change(folder: Path) -> None:
    copy = edit_copy(folder, "name: tiny", "name: tiny")
    (copy / "chat.jinja").write_text((copy / "chat.jinja").read_text() + "\n")
    found = diff_json(folder, copy)
    assert list(changes(found)) == ["file.chat.jinja"]
    assert step_fates(found)["models.base"] == "changed"


def test_plans_differ_by_the_paths_of_the_recipe(folder: Path, tmp_path: Path) -> None:
    """Without the text of the recipe, the paths are derived from the steps."""
    for name, setting in (("a", "seed=3"), ("b", "stages.sft.params.batch_size=8")):
        ended = run_command("plan", folder, "--set", setting, "--format", "json")
        assert ended.returncode == 0, ended.stderr
        (tmp_path / f"{name}.json").write_text(ended.stdout)
    found = diff_json(tmp_path / "a.json", tmp_path / "b.json")
    assert changes(found) == {"stages.sft.params.batch_size": (16, 8)}
    assert step_fates(found)["sft"] == "changed"
    assert step_fates(found)["grpo"] == "downstream"


def test_other_rows_for_a_stage_are_its_own_change(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(plan_text(folder))
    copy = edit_copy(folder, "model: base\n    data: sums.train", "model: base\n    data: sums.test")
    (tmp_path / "b.json").write_text(plan_text(copy))
    found = diff_json(tmp_path / "a.json", tmp_path / "b.json")
    assert changes(found) == {"stages.sft.data": ("sums.train", "sums.test")}
    assert step_fates(found)["sft"] == "changed"


def plan_text(folder: Path) -> str:
    plan = compile_file(folder / "recipe.yaml", (), ())[0].plan
    assert plan is not None
    return plan_to_json(plan)


def test_another_version_of_the_stack_is_reported(folder: Path, tmp_path: Path) -> None:
    text = plan_text(folder)
    data = json.loads(text)
    version = data["steps"][0]["key_values"]["environment"]["torch"]
    for step in data["steps"]:
        if "torch" in step["key_values"]["environment"]:
            step["key_values"]["environment"]["torch"] = "1.0"
            step["key_parts"]["environment"] = "0" * 64
            step["key"] = step["key"][::-1]
    (tmp_path / "a.json").write_text(json.dumps(data))
    (tmp_path / "b.json").write_text(text)
    found = diff_json(tmp_path / "a.json", tmp_path / "b.json")
    assert changes(found) == {"stack.torch": ("1.0", version)}
    assert "datasets.sums" not in step_fates(found)
    assert {step_fates(found)[step] for step in ("models.base", "sft", "grpo", "before", "export")} == {
        "changed"
    }


def test_steps_that_come_and_go(folder: Path) -> None:
    copy = edit_copy(folder, "  export: {export: grpo}", "  written: {export: sft}")
    found = diff_json(folder, copy)
    assert step_fates(found) == {"written": "new"}
    assert found["removed"] == ["export"]
    assert "removed: export" in diff(folder, copy).output


def test_steps_in_the_home_cost_nothing(folder: Path, tmp_path: Path) -> None:
    first, second = "{script: [sh, -c, 'echo 1 > $OUT/x']}", "{script: [cat], inputs: {x: a}}"
    recipe = f"recipe: 1\nname: it\nstages:\n  a: {first}\n  b: {second}\n"
    home = tmp_path / "home"
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "recipe.yaml").write_text(recipe)
    assert run_command("run", tmp_path / "old", "--home", home).returncode == 0
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "recipe.yaml").write_text(recipe.replace("echo 1", "echo 2"))
    found = diff_json(tmp_path / "old", tmp_path / "new", "--home", home)
    assert {step["id"]: step["cached"] for step in found["steps"]} == {"a": False, "b": False}
    back = diff_json(tmp_path / "new", tmp_path / "old", "--home", home)
    assert {step["id"]: step["cached"] for step in back["steps"]} == {"a": True, "b": True}
    (run,) = (home / "runs").iterdir()
    by_name = diff_json(
        run.name[:8], tmp_path / "new", "--home", home
    )  # a run is named by its name or its folder
    assert (
        step_fates(by_name)
        == step_fates(diff_json(run, tmp_path / "new", "--home", home))
        == step_fates(found)
    )


def test_the_cost_is_that_of_the_steps_to_run(folder: Path, tmp_path: Path) -> None:
    plan = compile_file(folder / "recipe.yaml", (), ())[0].plan
    assert plan is not None
    (tmp_path / "a.json").write_text(plan_to_json(plan))
    changed = tuple(
        step.model_copy(
            update={"key": step.key[::-1], "estimate": {"seconds": 60.0, "memory_gb": 1.0, "dollars": 0.5}}
        )
        for step in plan.steps
        if step.id in ("sft", "grpo")
    )
    unchanged = tuple(
        step.model_copy(update={"estimate": None}) for step in plan.steps if step.id not in ("sft", "grpo")
    )
    order = {step.id: number for number, step in enumerate(plan.steps)}
    steps = tuple(sorted((*unchanged, *changed), key=lambda step: order[step.id]))
    (tmp_path / "b.json").write_text(plan_to_json(plan.model_copy(update={"steps": steps})))
    found = diff_json(tmp_path / "a.json", tmp_path / "b.json", "--home", tmp_path)
    assert found["cost"] == {"seconds": 120.0, "dollars": 1.0}
    shown = diff(tmp_path / "a.json", tmp_path / "b.json", "--home", tmp_path).output
    assert shown.splitlines()[-1] == "2 steps to run again, 6 unchanged; about 2 min 00 s, $1.00"


MATRIX = "recipe: 1\nname: m\nmatrix: {w: WORDS}\nstages:\n  a: {script: [echo, '${matrix.w}']}\n"


def test_existing_legs_of_a_matrix_are_unchanged(tmp_path: Path) -> None:
    for name, words in (("old", "[x]"), ("new", "[x, y]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.yaml").write_text(MATRIX.replace("WORDS", words))
    found = diff_json(tmp_path / "old", tmp_path / "new", "--home", tmp_path)
    assert changes(found) == {"matrix.w.1": ("-", "y")}
    assert [step["id"] for step in found["steps"]] == ["a@w=y"]
    assert found["removed"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", "."), "no run in"),
        (("empty", "empty"), "holds neither recipe.yaml nor plan.json"),
        (("bad.json", "bad.json"), "is not a plan of this release"),
        (("plan.json", "reversed.json"), "which is no step before it"),
        (("plan.json", "twice.json"), "two steps are named"),
        (("plan.json", "plan.json", "--set", "seed=1"), "--set and --profile apply to recipes only"),
    ],
)
def test_invalid_inputs_are_usage_errors(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "plan.json").write_text(plan_text(folder))
    plan = json.loads(plan_text(folder))
    for name, steps in {"reversed": plan["steps"][::-1], "twice": [plan["steps"][0]] * 2}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({**plan, "steps": steps}))
    ended = diff(*arguments)
    assert ended.exit_code == 2
    assert message in ended.output


def test_a_recipe_with_errors_ends_with_status_1(folder: Path) -> None:
    copy = edit_copy(folder, "train: grpo", "train: grpoo")
    assert diff(folder, copy).exit_code == 1
