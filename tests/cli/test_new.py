"""`recipe new` creates valid recipes without diagnostics, and overwrites nothing."""

from pathlib import Path

import pytest
from tests.cli.recipe_corpus import STARTERS
from tests.recipe_command import run_command

KINDS = sorted(path.name for path in STARTERS.iterdir() if path.is_dir())


@pytest.mark.parametrize("kind", KINDS)
def test_a_starter_plans_without_a_word(kind: str, tmp_path: Path) -> None:
    written = run_command("new", kind, tmp_path / "mine")
    assert written.returncode == 0, written.stderr
    assert f"{tmp_path}/mine/recipe.yaml" in written.stdout
    planned = run_command("plan", tmp_path / "mine", "--home", tmp_path / "home")
    assert (planned.returncode, planned.stderr) == (0, "")
    assert "to run" in planned.stdout
    text = (tmp_path / "mine" / "recipe.yaml").read_text()
    assert "\nname: mine\n" in text
    assert text.count("#") >= 3
    assert run_command("fmt", "--check", tmp_path / "mine").returncode == 0


def test_the_smoke_profile_of_the_pipeline_plans_too(tmp_path: Path) -> None:
    assert run_command("new", "pipeline", tmp_path).returncode == 0
    planned = run_command("plan", tmp_path, "--profile", "smoke", "--home", tmp_path / "home")
    assert (planned.returncode, planned.stderr) == (0, "")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("mine")
    refused = run_command("new", "sft", tmp_path)
    assert refused.returncode == 2
    assert "rows.jsonl already exists" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]
    assert (tmp_path / "rows.jsonl").read_text() == "mine"
    refused = run_command("new", "sft", tmp_path / "rows.jsonl")
    assert refused.returncode == 2
    assert "is a file" in refused.stderr


def test_the_kinds_are_listed() -> None:
    listed = run_command("new", "--list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == KINDS
    assert {"sft", "dpo", "grpo", "eval", "pipeline"} <= set(KINDS)
    asked = run_command("new")
    assert (asked.returncode, asked.stdout) == (2, listed.stdout)


def test_an_unknown_kind_has_a_suggestion() -> None:
    refused = run_command("new", "gpro")
    assert refused.returncode == 2
    assert "did you mean `grpo`?" in refused.stderr


def test_a_folder_name_that_cannot_be_a_name_is_not_taken(tmp_path: Path) -> None:
    assert run_command("new", "eval", tmp_path / "2 models").returncode == 0
    assert "\nname: my-eval\n" in (tmp_path / "2 models" / "recipe.yaml").read_text()
