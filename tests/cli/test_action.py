"""The GitHub action: its scripts in a real repository, with the environment and the API of a runner."""

import importlib.util
import json
import shutil
import subprocess
import urllib.error
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.cli.action_runner import ACTION, ActionRun, Comments, comment_server, recipe_program
from tests.git_projects import GitProject, git
from tests.recipe_command import ROOT, run_command

FOLDER = "recipes/words"


@pytest.fixture
def project(tmp_path: Path) -> GitProject:
    return GitProject(tmp_path / "project")


@pytest.fixture
def comments() -> Comments:
    return Comments()


@pytest.fixture
def api(comments: Comments) -> Iterator[str]:
    with comment_server(comments) as address:
        yield address


def act(project: GitProject, api: str, base: str, **inputs: str) -> ActionRun:
    """The action on a pull request, with a shallow clone of the project as the runner has it."""
    scratch = project.top.with_name("runner")
    shutil.rmtree(scratch, ignore_errors=True)
    workspace = scratch / "workspace"
    scratch.mkdir()
    git(scratch, "clone", "--quiet", "--depth=1", f"file://{project.top}", str(workspace))
    event: dict[str, Any] = {"pull_request": {"number": 7, "base": {"sha": base}}}
    given = {"recipes": FOLDER, "recipe-command": str(recipe_program(scratch)), **inputs}
    github = {"event": event, "token": "secret-token"}
    return ActionRun(workspace, scratch, github, given, api).run()


def test_a_change_is_checked_and_commented(project: GitProject, api: str, comments: Comments) -> None:
    base = project.git("rev-parse", "HEAD").strip()
    project.edit("2 * ", "3 * ")
    project.commit("second")
    run = act(project, api, base)
    assert run.status == 0, run.log
    assert set(run.outcomes.values()) == {"success"}
    (comment,) = comments.items
    assert comment["body"].startswith("<!-- posttrain-plan -->\n### `recipes/words/recipe.yaml`")
    assert "**1 step to run again, 2 unchanged**" in comment["body"]
    assert run.summary in comment["body"]
    assert Path(run.outputs["markdown"]).read_text() == run.summary


def test_the_second_run_replaces_the_comment(project: GitProject, api: str, comments: Comments) -> None:
    for at in range(120):
        comments.add(f"comment {at}")
    comments.add("<!-- posttrain-plan -->\nof a user", kind="User")
    base = project.git("rev-parse", "HEAD").strip()
    assert act(project, api, base).status == 0
    project.edit("2 * ", "3 * ")
    project.commit("second")
    assert act(project, api, base).status == 0
    written = [one["body"] for one in comments.items if "### " in one["body"]]
    assert len(written) == 1
    assert "1 step to run again" in written[0]
    assert comments.items[120]["body"].endswith("of a user")


def test_a_token_that_cannot_write_is_a_warning(project: GitProject, api: str, comments: Comments) -> None:
    comments.can_write = False
    run = act(project, api, project.git("rev-parse", "HEAD").strip())
    assert run.status == 0
    assert "::warning title=posttrain::no comment: the token may not write it (403)" in run.log
    assert "**No change**" in run.summary


def test_errors_are_annotations_and_the_comment(project: GitProject, api: str, comments: Comments) -> None:
    base = project.git("rev-parse", "HEAD").strip()
    project.edit("inputs: {number: count}", "inputs: {number: nothing}")
    project.commit("broken")
    run = act(project, api, base)
    assert run.status == 1
    assert "::error file=recipes/words/recipe.yaml,line=7" in run.log
    assert "**1 error**" in comments.items[0]["body"]
    assert run.outcomes["validate"] == run.outcomes["plan"] == "failure"
    assert run.outcomes["comment"] == "success"


def test_a_stale_lock_fails_and_a_missing_one_does_not(project: GitProject, api: str) -> None:
    base = project.git("rev-parse", "HEAD").strip()
    assert act(project, api, base).outcomes["lock"] == "success"
    assert run_command("lock", project.folder).returncode == 0
    project.commit("locked")
    assert act(project, api, base).outcomes["lock"] == "success"
    (project.folder / "words.txt").write_text("four\n")
    project.commit("words")
    run = act(project, api, base)
    assert (run.status, run.outcomes["lock"], run.outcomes["comment"]) == (1, "failure", "success")
    assert "recipe.lock: changed: the file `words.txt` is locked at" in run.log
    assert act(project, api, base, lock="skip").status == 0


def test_several_recipes_are_one_comment(project: GitProject, api: str, comments: Comments) -> None:
    base = project.git("rev-parse", "HEAD").strip()
    shutil.copytree(project.folder, project.top / "with spaces; $(touch x)")
    project.commit("second")
    run = act(project, api, base, recipes=f"\n  {FOLDER} \n\n with spaces; $(touch x)/recipe.yaml\n")
    assert run.status == 0, run.log
    assert comments.items[0]["body"].count("\n### `") == 2
    assert "has no such recipe" in comments.items[0]["body"]
    assert not (run.scratch / "workspace" / "x").exists()


def test_a_push_of_a_new_branch_has_nothing_to_compare_with(project: GitProject, api: str) -> None:
    run = act(project, api, "0" * 40, comment="false")
    assert run.status == 0, run.log
    assert "**3 steps to run**" in run.summary
    assert run.outcomes["comment"] == "skipped"


def test_a_revision_that_cannot_be_fetched(project: GitProject, api: str) -> None:
    run = act(project, api, "nowhere")
    assert run.status == 1
    assert "::error title=posttrain::the revision nowhere cannot be fetched" in run.log
    assert run.outcomes["comment"] == "skipped"


def test_a_branch_is_fetched_by_its_name(project: GitProject, api: str) -> None:
    project.git("branch", "release")
    project.edit("2 * ", "3 * ")
    project.commit("second")
    run = act(project, api, "unused", against="release")
    assert run.status == 0, run.log
    assert "1 step to run again" in run.summary


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"recipes": " \n"}, "the input recipes is empty"),
        ({"recipe-command": "no-such-program"}, "there is no program 'no-such-program'"),
    ],
)
def test_invalid_inputs_are_errors(
    project: GitProject, api: str, inputs: dict[str, str], message: str
) -> None:
    run = act(project, api, "unused", **inputs)
    assert run.status == 1
    assert f"::error title=posttrain::{message}" in run.log.replace("recipe-command: ", "")


def post_comment() -> ModuleType:
    path = ROOT / ".github" / "action" / "post_comment.py"
    spec = importlib.util.spec_from_file_location("post_comment", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (urllib.error.HTTPError("", 500, "", Message(), None), "GitHub refused the comment: status 500"),
        (urllib.error.URLError("name\n::stop-commands::x"), "cannot be reached: <urlopen error name ::stop"),
        (json.JSONDecodeError("no JSON", "", 0), "GitHub cannot be reached: no JSON"),
    ],
)
def test_a_failure_of_github_is_an_annotation(
    error: Exception,
    cause: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "text").write_bytes(b"\xff")
    values = {"MARKDOWN": tmp_path / "text", "GITHUB_REPOSITORY": "org/project", "PULL_REQUEST": 1}
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))
    module = post_comment()

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(module, "request", refuse)
    with pytest.raises(SystemExit):
        module.main()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("::error title=posttrain::")
    assert cause in line


def test_comments_without_author_or_text_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    module = post_comment()
    ours = {"id": 3, "body": module.MARKER, "user": {"type": "Bot"}}
    found: list[dict[str, Any]] = [
        {"id": 1, "body": module.MARKER, "user": None},
        {"id": 2, "body": None, "user": {}},
        ours,
    ]

    def answer(*_: object) -> list[dict[str, Any]]:
        return found

    monkeypatch.setattr(module, "request", answer)
    assert module.find_comment("/comments") == 3


def test_a_long_comment_is_cut_at_a_line() -> None:
    module = post_comment()
    line = f"| `{'x' * 90}` |"
    text = "\n".join(["<details><summary>all</summary>", *[line] * 2000, "</details>"])
    body = module.comment_body(text)
    assert 60_000 < len(body) <= 65_536
    assert body.endswith("The comment is truncated; the summary of the job has the complete text.\n")
    assert body.count("<details>") == body.count("</details>") == 1
    assert {one for one in body.splitlines() if one.startswith("|")} == {line}
    assert module.comment_body("short") == "<!-- posttrain-plan -->\nshort"


def test_inputs_never_stand_in_the_text_of_a_script() -> None:
    assert [step["run"] for step in ACTION["runs"]["steps"] if "${{" in step["run"]] == []


def test_the_scripts_are_valid() -> None:
    for script in (ROOT / ".github" / "action").glob("*.sh"):
        subprocess.run(["bash", "-n", str(script)], check=True)


@pytest.mark.slow
def test_the_action_installs_its_own_release(project: GitProject, api: str) -> None:
    """With the locks of the base installation: without torch."""
    run = act(project, api, project.git("rev-parse", "HEAD").strip(), **{"recipe-command": ""})
    assert run.status == 0, run.log
    packages = {path.name for path in (run.scratch / "posttrain" / "lib").glob("*/site-packages/*")}
    assert "duckdb" in packages
    assert "torch" not in packages
