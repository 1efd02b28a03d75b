"""`recipe lock`: pins revisions and digests, checks them, and `--locked` uses them."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.recipe_command import RECIPE_COMMAND, run_command
from tests.runtime.lockfile.fake_hub_revisions import fake_hub

from posttrain.spec.lockfile import format_lock, parse_lock
from posttrain.spec.plan import plan_from_json

COMMITS = {name: name * 40 for name in "abcdef"}
TEXT = """\
recipe: 1
name: hub
profiles:
  large: {models: {base: {from: org/large, revision: null}}}
models:
  base: {from: org/small, revision: stable}
datasets:
  rows: {from: {hub: {name: org/rows, columns: {prompt: text, completion: text}}}}
stages:
  look: {script: [python, look.py], files: [look.py], inputs: {model: base, rows: rows}}
"""
REPOSITORIES = {
    ("model", "org/small"): {"main": COMMITS["a"], "stable": COMMITS["b"]},
    ("model", "org/large"): {"main": COMMITS["c"]},
    ("dataset", "org/rows"): {"main": COMMITS["d"]},
}


class LockedRecipe:
    """A folder with a recipe, and commands that use a local hub server."""

    def __init__(self, path: Path, address: str, asked: list[str]) -> None:
        self.path, self.address, self.asked = path, address, asked
        self.lock = path / "recipe.lock"

    def call(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HF_ENDPOINT": self.address, "HF_HOME": str(self.path / "hub")}
        command = [*RECIPE_COMMAND, *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def locked(self, *options: str) -> dict[tuple[str, str], str]:
        ended = self.call("lock", self.path, *options)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return dict(parse_lock(self.lock.read_text()).values)

    def reasons(self) -> list[tuple[str, str, str]]:
        ended = self.call("lock", self.path, "--check", "--format", "json")
        found = json.loads(ended.stdout)
        assert ended.returncode == (1 if found["reasons"] else 0)
        assert found["fresh"] == (not found["reasons"])
        return [(reason["reason"], reason["kind"], reason["name"]) for reason in found["reasons"]]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LockedRecipe]:
    (tmp_path / "recipe.yaml").write_text(TEXT)
    (tmp_path / "look.py").write_text("print(1)\n")
    with fake_hub(REPOSITORIES) as (address, asked):
        yield LockedRecipe(tmp_path, address, asked)


def test_the_lock_covers_every_profile(folder: LockedRecipe) -> None:
    values = folder.locked()
    hub = {id: value for id, value in values.items() if id[0] in ("model", "dataset")}
    assert hub == {
        ("model", "org/small@stable"): COMMITS["b"],
        ("model", "org/large@main"): COMMITS["c"],
        ("dataset", "org/rows@main"): COMMITS["d"],
    }
    assert len(values["file", "look.py"]) == 64
    assert {name for kind, name in values if kind == "stack"} >= {"torch", "transformers", "duckdb"}
    assert folder.lock.read_text() == format_lock(values)


def test_locked_plans_need_no_network(folder: LockedRecipe) -> None:
    folder.locked()
    folder.address = "http://127.0.0.1:1"  # no server
    shown = folder.call("plan", folder.path, "--locked", "--format", "json")
    assert shown.returncode == 0, shown.stderr
    plan = plan_from_json(shown.stdout)
    assert plan.step("models.base").params["revision"] == COMMITS["b"]
    assert plan.step("datasets.rows").params["source"]["params"]["revision"] == COMMITS["d"]
    assert all(step.pinned for step in plan.steps)
    large = folder.call("plan", folder.path, "--locked", "--profile", "large", "--format", "json")
    assert large.returncode == 0, large.stderr
    assert plan_from_json(large.stdout).step("models.base").params["revision"] == COMMITS["c"]


def test_locking_again_changes_nothing_without_upgrade(folder: LockedRecipe) -> None:
    before = folder.locked()
    count = len(folder.asked)
    assert folder.locked() == before
    assert len(folder.asked) == count
    with fake_hub({**REPOSITORIES, ("dataset", "org/rows"): {"main": COMMITS["e"]}}) as (address, _):
        folder.address = address
        assert folder.locked() == before
        assert folder.locked("--upgrade") == {**before, ("dataset", "org/rows@main"): COMMITS["e"]}


def test_a_check_reports_outdated_entries(folder: LockedRecipe) -> None:
    assert ("missing", "dataset", "org/rows@main") in folder.reasons()
    folder.locked()
    assert folder.reasons() == []
    (folder.path / "look.py").write_text("print(2)\n")
    text = TEXT.replace("org/rows", "org/others")
    (folder.path / "recipe.yaml").write_text(text)
    lines = folder.lock.read_text().splitlines()
    lines = [line.replace('"torch", "', '"torch", "0.') for line in lines]
    folder.lock.write_text("\n".join(lines) + "\n")
    assert folder.reasons() == [
        ("missing", "dataset", "org/others@main"),
        ("changed", "file", "look.py"),
        ("changed", "stack", "torch"),
        ("extra", "dataset", "org/rows@main"),
    ]
    shown = folder.call("lock", folder.path, "--check")
    assert shown.returncode == 1
    assert "missing: the dataset `org/others@main` is not locked" in shown.stdout
    refused = folder.call("run", folder.path, "--locked", "--home", folder.path / "home")
    assert refused.returncode == 1
    assert "PT0141" in refused.stderr
    assert not (folder.path / "home").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("org/rows", "org/none", "the dataset `org/none` is not on the Hub"),
        ("revision: stable", "revision: v9", "the model `org/small` has no revision `v9`"),
    ],
)
def test_missing_names_on_the_hub_are_reported(
    folder: LockedRecipe, old: str, new: str, message: str
) -> None:
    (folder.path / "recipe.yaml").write_text(TEXT.replace(old, new))
    ended = folder.call("lock", folder.path)
    assert ended.returncode == 1
    assert message in ended.stderr
    assert not folder.lock.exists()


def test_an_unreachable_hub_is_reported(folder: LockedRecipe) -> None:
    folder.address = "http://127.0.0.1:1"
    ended = folder.call("lock", folder.path)
    assert ended.returncode == 1
    assert "cannot resolve the commit of" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_conflict_is_rejected_and_repaired(folder: LockedRecipe) -> None:
    before = folder.locked()
    whole = folder.lock.read_text()
    line = next(line for line in whole.splitlines() if "org/rows" in line)
    conflict = f"<<<<<<< ours\n{line}\n=======\n{line.replace('d' * 40, 'f' * 40)}\n>>>>>>> theirs"
    folder.lock.write_text(whole.replace(line, conflict))
    checked = folder.call("lock", folder.path, "--check")
    assert checked.returncode == 1
    assert "merge conflict marker" in checked.stderr
    assert folder.locked() == before
    assert folder.lock.read_text() == whole


def test_locked_without_a_lock_fails(folder: LockedRecipe) -> None:
    ended = run_command("plan", folder.path, "--locked")
    assert ended.returncode == 1
    assert "recipe lock" in ended.stderr


def test_a_locked_run_uses_the_lock(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(
        "recipe: 1\nname: it\nstages:\n  a: {script: [sh, a.sh], files: [a.sh]}\n"
    )
    (tmp_path / "a.sh").write_text("echo 1 > $OUT/x\n")
    assert run_command("lock", tmp_path).returncode == 0
    ran = run_command("run", tmp_path, "--locked", "--home", tmp_path / "home")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (tmp_path / "a.sh").write_text("echo 2 > $OUT/x\n")
    refused = run_command("run", tmp_path, "--locked", "--home", tmp_path / "home")
    assert refused.returncode == 1
    assert "the file `a.sh` is locked at" in refused.stderr


def test_a_recipe_of_another_name_has_a_separate_lock(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("recipe: 1\nname: it\nstages: {a: {script: [sh, -c, exit]}}\n")
    assert run_command("lock", tmp_path / "other.yaml").returncode == 0
    assert (tmp_path / "other.lock").exists()


BENCHMARK = """\
recipe: 1
name: quoted
models:
  base: {from: org/small, revision: stable}
stages:
  quoted: {benchmark: base, tasks: [gsm8k], revisions: {org/rows: main, org/tasks: COMMIT}}
""".replace("COMMIT", COMMITS["f"])


def test_the_data_of_a_benchmark_is_pinned(folder: LockedRecipe) -> None:
    (folder.path / "recipe.yaml").write_text(BENCHMARK)
    loose = plan_from_json(folder.call("plan", folder.path, "--format", "json").stdout)
    assert not loose.step("quoted").pinned
    refused = folder.call("plan", folder.path, "--locked")
    assert refused.returncode != 0
    values = folder.locked()
    assert {id: value for id, value in values.items() if id[0] == "dataset"} == {
        ("dataset", "org/rows@main"): COMMITS["d"],
        ("dataset", f"org/tasks@{COMMITS['f']}"): COMMITS["f"],
    }
    assert not any("org/tasks" in path for path in folder.asked), "a commit is not asked for"
    assert folder.reasons() == []
    folder.address = "http://127.0.0.1:1"  # no server
    plan = plan_from_json(folder.call("plan", folder.path, "--locked", "--format", "json").stdout)
    step = plan.step("quoted")
    assert step.params["revisions"] == {"org/rows": COMMITS["d"], "org/tasks": COMMITS["f"]}
    assert step.pinned


def test_a_missing_revision_is_reported_with_its_place(folder: LockedRecipe) -> None:
    (folder.path / "recipe.yaml").write_text(BENCHMARK)
    folder.locked()
    (folder.path / "recipe.yaml").write_text(BENCHMARK.replace("org/rows: main", "org/rows: next"))
    refused = folder.call("plan", folder.path, "--locked")
    assert refused.returncode == 1
    assert "recipe.lock has no revision for the dataset `org/rows@next`" in refused.stderr
    assert "recipe.yaml:6:67" in refused.stderr
    ended = folder.call("lock", folder.path)
    assert ended.returncode == 1
    assert "the dataset `org/rows` has no revision `next`" in ended.stderr
