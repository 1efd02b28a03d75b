"""`recipe plan --against REF`: what changed since a revision, in a real git repository."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.git_projects import RECIPE, GitProject, git

from posttrain.cli.main import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitProject:
    monkeypatch.setenv("RECIPE_HOME", str(tmp_path / "home"))
    return GitProject(tmp_path / "project")


def against(project: GitProject, *arguments: str, revision: str = "HEAD") -> Result:
    return CliRunner().invoke(main, ["plan", str(project.folder), "--against", revision, *arguments])


def comparison(project: GitProject, *arguments: str, revision: str = "HEAD") -> dict[str, Any]:
    ended = against(project, "--format", "json", *arguments, revision=revision)
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


def fates(found: dict[str, Any]) -> dict[str, str]:
    return {step["id"]: step["why"] for step in found["steps"]}


def markdown(project: GitProject, *arguments: str, revision: str = "HEAD") -> str:
    ended = against(project, "--format", "markdown", *arguments, revision=revision)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_a_committed_change_is_compared_with_its_base(project: GitProject) -> None:
    project.edit("2 * ", "3 * ")
    project.commit("second")
    assert comparison(project)["same"] is True
    assert fates(comparison(project, revision="HEAD~1")) == {"double": "changed"}
    (project.folder / "words.txt").write_text("one\n")
    project.commit("third")
    found = comparison(project, revision="HEAD~1")
    assert fates(found) == {"count": "changed", "double": "downstream"}
    assert found["changes"][0]["path"] == ["file", "words.txt"]


def test_the_comment_names_the_change_and_the_steps(project: GitProject) -> None:
    project.edit("2 * ", "3 * ")
    project.commit("second")
    text = markdown(project, revision="HEAD~1")
    base = project.git("rev-parse", "--short=12", "HEAD~1").strip()
    assert f"Compared with `HEAD~1` ({base})." in text
    assert "**1 step to run again; 2 unchanged**" in text.replace(", ", "; ")
    assert "| `double` | script | run | `script" in text
    assert "<summary>2 unchanged steps</summary>" in text
    assert "not committed" not in text
    assert markdown(project).count("**No change**") == 1


def test_the_cost_of_a_change_and_of_the_recipe(tmp_path: Path, project: GitProject) -> None:
    shutil.rmtree(project.folder)
    shutil.copytree(Path(__file__).parents[2] / "recipes" / "two-phase-reasoning", project.folder)
    project.commit("reasoning")
    text = markdown(project, "--set", "hardware.price_per_hour=2", revision="HEAD")
    assert "**No change**" in text
    recipe = (project.folder / "recipe.yaml").read_text()
    assert "  grpo:" in recipe
    (project.folder / "recipe.yaml").write_text(recipe.replace("seed: ", "seed: 1"))
    text = markdown(project, revision="HEAD")
    assert "cost of the change: `" in text
    assert "to run again" in text
    assert "| time | memory |" in text


def test_the_working_tree_and_the_index_are_not_touched(project: GitProject) -> None:
    base = project.git("rev-parse", "HEAD").strip()
    project.edit("2 * ", "3 * ")
    project.git("add", "--all")
    project.edit("3 * ", "4 * ")
    (project.folder / "new.txt").write_text("new")
    before = project.git("status", "--porcelain"), (project.top / ".git" / "index").read_bytes()
    assert "not committed" in markdown(project, revision=base)
    assert (project.git("status", "--porcelain"), (project.top / ".git" / "index").read_bytes()) == before
    assert "* $(cat" in (project.folder / "recipe.yaml").read_text()


def test_a_recipe_that_did_not_exist_is_new(project: GitProject) -> None:
    base = project.git("rev-parse", "HEAD").strip()
    shutil.copytree(project.folder, project.top / "copied")
    (project.top / "copied" / "recipe.yaml").write_text("recipe: 1\nname: x\nstages: {a: {script: [ls]}}\n")
    project.folder = project.top / "copied"
    text = markdown(project, revision=base)
    assert "has no such recipe" in text
    assert "| `a` | script | run | `new` |" in text


def test_a_renamed_recipe_is_found(project: GitProject) -> None:
    base = project.git("rev-parse", "HEAD").strip()
    project.git("mv", "recipes/words", "recipes/counted")
    project.folder = project.top / "recipes" / "counted"
    project.edit("2 * ", "3 * ")
    project.commit("moved")
    text = markdown(project, revision=base)
    assert "at the revision, the recipe was recipes/words/recipe.yaml" in text
    assert fates(comparison(project, revision=base)) == {"double": "changed"}


def test_a_recipe_with_errors_at_the_revision_is_compared_with_nothing(project: GitProject) -> None:
    project.edit("inputs: {number: count}", "inputs: {number: nothing}")
    project.commit("broken")
    project.edit("inputs: {number: nothing}", "inputs: {number: count}")
    text = markdown(project)
    assert "the recipe at HEAD has errors:" in text
    assert text.count("| `new` |") == 3


def test_the_errors_of_a_recipe_are_its_comment(project: GitProject) -> None:
    project.edit("inputs: {number: count}", "inputs: {number: nothing}")
    ended = against(project, "--format", "markdown")
    assert ended.exit_code == 1
    assert "**1 error**" in ended.stdout
    assert "`recipe.yaml:7:" in ended.stdout


def test_a_recipe_in_the_top_folder(tmp_path: Path, project: GitProject) -> None:
    shutil.copy(project.folder / "recipe.yaml", project.top)
    shutil.copy(project.folder / "words.txt", project.top)
    project.folder = project.top
    project.commit("top")
    (project.top / "words.txt").write_text("one\n")
    assert fates(comparison(project)) == {"count": "changed", "double": "downstream"}


def test_attributes_change_nothing(project: GitProject) -> None:
    """`git archive` leaves out files with the attribute export-ignore."""
    (project.top / ".gitattributes").write_text("*.txt export-ignore\n")
    project.commit("attributes")
    assert comparison(project)["same"] is True


def test_hooks_set_variables_of_git(project: GitProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", ".git")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
    project.edit("2 * ", "3 * ")
    assert fates(comparison(project)) == {"double": "changed"}


def test_profiles_and_settings_apply_to_both_sides(project: GitProject) -> None:
    assert comparison(project, "--set", "seed=5")["same"] is True


def test_exit_code_reports_steps_to_run_again(project: GitProject) -> None:
    assert against(project, "--exit-code").exit_code == 0
    project.edit("2 * ", "3 * ")
    assert against(project, "--exit-code").exit_code == 2


# Revisions without content


def lfs_pointer(content: str) -> str:
    oid = hashlib.sha256(content.encode()).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(content)}\n"


def test_an_lfs_pointer_has_the_content_of_the_working_tree(project: GitProject) -> None:
    words = project.folder / "words.txt"
    words.write_text(lfs_pointer("one two three\n"))
    project.commit("pointer")
    words.write_text("one two three\n")
    assert comparison(project)["same"] is True


def test_an_lfs_pointer_has_the_content_of_the_object_store(project: GitProject) -> None:
    words, old = project.folder / "words.txt", "four five\n"
    words.write_text(lfs_pointer(old))
    project.commit("pointer")
    words.write_text("one two three\n")
    ended = against(project)
    assert ended.exit_code == 1
    assert "at HEAD, words.txt is a Git LFS pointer; fetch its content with `git lfs fetch" in ended.output
    oid = hashlib.sha256(old.encode()).hexdigest()
    stored = project.top / ".git" / "lfs" / "objects" / oid[:2] / oid[2:4] / oid
    stored.parent.mkdir(parents=True)
    stored.write_text("damaged")
    assert against(project).exit_code == 1
    stored.write_text(old)
    assert fates(comparison(project)) == {"count": "changed", "double": "downstream"}


def test_an_unused_pointer_is_no_problem(project: GitProject) -> None:
    (project.folder / "video.mp4").write_text(lfs_pointer("large"))
    project.commit("video")
    assert comparison(project)["same"] is True


def test_files_of_submodules(tmp_path: Path, project: GitProject) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "--quiet", "--initial-branch=main")
    for text in ("one two three\n", "one\n"):
        (library / "words.txt").write_text(text)
        git(library, "add", "--all")
        git(library, "commit", "--quiet", "--message", "words")
    project.git("submodule", "--quiet", "add", str(library), "recipes/words/data")
    project.edit("words.txt", "data/words.txt")
    project.commit("submodule")
    assert comparison(project)["same"] is True
    project.git("checkout", "--quiet", "HEAD~1", cwd=project.folder / "data")
    assert fates(comparison(project)) == {"count": "changed", "double": "downstream"}
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(project.top), str(clone))
    project.folder = clone / "recipes" / "words"
    (project.folder / "data" / "words.txt").write_text("one\n")
    ended = against(project)
    assert ended.exit_code == 1
    assert "at HEAD, data is a submodule whose commit" in ended.output


@pytest.mark.parametrize(
    ("revision", "message"),
    [
        ("nowhere", "has no revision `nowhere`; name a commit, tag or branch"),
        ("--all", "has no revision `--all`"),
        ("HEAD~9", "has no revision `HEAD~9`"),
    ],
)
def test_an_unknown_revision_is_named(project: GitProject, revision: str, message: str) -> None:
    ended = against(project, revision=revision)
    assert ended.exit_code == 1
    assert message in ended.output


def test_a_shallow_clone_without_the_revision_says_how_to_fetch_it(
    tmp_path: Path, project: GitProject
) -> None:
    base = project.git("rev-parse", "HEAD").strip()
    project.edit("2 * ", "3 * ")
    project.commit("second")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{project.top}", str(clone))
    project.folder = clone / "recipes" / "words"
    ended = against(project, revision=base)
    assert ended.exit_code == 1
    assert f"this shallow clone has no revision `{base}`; fetch it with `git fetch --depth=1" in ended.output
    git(clone, "fetch", "--quiet", "--depth=1", "origin", base)
    assert fates(comparison(project, revision=base)) == {"double": "changed"}


def test_a_folder_without_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "words.txt").write_text("one\n")
    arguments = ["plan", str(tmp_path), "--against", "HEAD"]
    ended = CliRunner().invoke(main, arguments)
    assert ended.exit_code == 1
    assert "is not in a git repository, which a comparison with a revision needs" in ended.output
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git is not installed" in CliRunner().invoke(main, arguments).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--format", "mermaid"), "--against prints text, json, markdown"),
        (("--only", "count"), "--against compares whole recipes"),
        (("--check",), "--against compares whole recipes"),
    ],
)
def test_options_that_do_not_fit_are_usage_errors(
    project: GitProject, arguments: tuple[str, ...], message: str
) -> None:
    ended = against(project, *arguments)
    assert ended.exit_code == 2
    assert message in ended.output


def test_values_of_a_recipe_never_become_markup(project: GitProject) -> None:
    project.edit("echo other", "echo `@org/team` | <img src=x> `` [a](b)")
    text = markdown(project)
    line = next(line for line in text.splitlines() if "@org" in line)
    assert line.startswith("- ```")
    assert line.endswith("```")
    assert "\n| `other` | script | run |" in text
    project.edit("other: {script", '"a`b|c": {script')
    ended = against(project, "--format", "markdown")
    assert "<img" not in ended.stdout.replace("`", "").partition("stages")[0]


def test_markdown_without_a_revision_lists_the_plan(project: GitProject) -> None:
    ended = CliRunner().invoke(main, ["plan", str(project.folder), "--format", "markdown"])
    assert ended.exit_code == 0
    assert "**3 steps to run**" in ended.output
    assert "| `count` | script | run | `never run` |" in ended.output
