"""The hooks for pre-commit, run by the real pre-commit in a real repository."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from tests.cli.action_runner import recipe_program
from tests.conftest import require_service
from tests.git_projects import GitProject
from tests.recipe_command import ROOT, run_command


@pytest.fixture
def project(tmp_path: Path) -> GitProject:
    found = GitProject(tmp_path / "project")
    (found.top / "README.md").write_text("no recipe\n")
    found.commit("readme")
    return found


def try_hook(project: GitProject, hook: str, *files: str) -> subprocess.CompletedProcess[str]:
    """Run a hook of this repository with these files."""
    scratch = project.top.with_name("hooks")
    scratch.mkdir(exist_ok=True)
    recipe_program(scratch)
    program = shutil.which("pre-commit", path=str(Path(sys.executable).parent)) or shutil.which("pre-commit")
    pre_commit = require_service("pre-commit", program, "pip install pre-commit")
    return subprocess.run(
        [pre_commit, "try-repo", str(ROOT), hook, "--verbose", "--files", *files],
        cwd=project.top,
        env={
            **os.environ,
            "PATH": f"{scratch}:{os.environ['PATH']}",
            "PRE_COMMIT_HOME": str(scratch / "cache"),
            "GIT_CONFIG_GLOBAL": os.devnull,
        },
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_each_hook_names_a_command_that_exists() -> None:
    for hook in YAML(typ="safe").load(ROOT / ".pre-commit-hooks.yaml"):
        program, command, *options = hook["entry"].split()
        assert program == "recipe"
        shown = run_command(command, "--help").stdout
        assert [option for option in options if option not in shown] == []


def test_a_changed_file_checks_the_lock_of_its_recipe(project: GitProject) -> None:
    words = "recipes/words/words.txt"
    passed = try_hook(project, "recipe-lock-check", words, "README.md")
    assert passed.returncode == 0, passed.stdout + passed.stderr  # no lock, nothing to check
    assert run_command("lock", project.folder).returncode == 0
    (project.top / words).write_text("four\n")
    project.commit("words")
    failed = try_hook(project, "recipe-lock-check", words, "README.md")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "recipe.lock: changed: the file `words.txt` is locked at" in failed.stdout
    assert run_command("lock", project.folder).returncode == 0
    assert try_hook(project, "recipe-lock-check", words).returncode == 0


@pytest.mark.slow
def test_pre_commit_installs_what_validates(project: GitProject) -> None:
    """In an environment of its own, without training libraries."""
    passed = try_hook(project, "recipe-validate", "recipes/words/words.txt", "README.md")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert passed.stdout.count("recipes/words/recipe.yaml is valid") == 1
    project.edit("inputs: {number: count}", "inputs: {number: nothing}")
    project.commit("broken")
    failed = try_hook(project, "recipe-validate", "recipes/words/words.txt")
    assert failed.returncode == 1
    assert "--> recipes/words/recipe.yaml:7:" in failed.stdout


def test_other_files_check_nothing(project: GitProject) -> None:
    done = run_command("validate", "--changed-files", "README.md", "gone/x.txt", cwd=project.top)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_several_recipes_are_checked(project: GitProject) -> None:
    shutil.copytree(project.folder, project.top / "other")
    project.edit("inputs: {number: count}", "inputs: {number: nothing}")
    done = run_command("validate", "other", "recipes/words", "other/recipe.yaml", cwd=project.top)
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["other/recipe.yaml is valid"] * 2
    refused = run_command("validate", "--format", "json", "other", "recipes/words", cwd=project.top)
    assert refused.returncode == 2
    assert "--format json prints one document, for one recipe; got 2" in refused.stderr
