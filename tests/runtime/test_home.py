"""Unusual homes: on a read-only file system, with unusual names, without journals."""

import subprocess
from pathlib import Path

import pytest
from tests.conftest import require_service
from tests.recipe_command import run_command
from tests.runtime.resizable_tmpfs import can_mount

RECIPE = """\
recipe: 1
name: found
stages:
  word: {script: [sh, -c, "echo word > $OUT/word"]}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return tmp_path


def test_a_name_with_spaces_and_letters_of_other_alphabets(recipe: Path) -> None:
    home = recipe / "a höme 漢字" / "of 'mine'"
    assert run_command("run", recipe, "--home", home).returncode == 0
    assert "done" in run_command("status", "--home", home).stdout
    assert "no damage found" in run_command("verify", "--home", home).stdout


@pytest.mark.parametrize("below", ["", "further/down"])
def test_a_file_is_no_home(below: str, recipe: Path) -> None:
    (recipe / "file").touch()
    done = run_command("run", recipe, "--home", recipe / "file" / below)
    assert done.returncode == 1
    assert f"{recipe / 'file'} is not a folder" in done.stderr
    assert "--home" in done.stderr


def test_a_disk_that_can_only_be_read(recipe: Path) -> None:
    disk = recipe / "disk"
    require_service("the right to mount", can_mount(disk) or None, "run the tests as root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], check=True)
    try:
        assert run_command("run", recipe, "--home", disk / "home").returncode == 0
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        refused = run_command("run", recipe, "--home", disk / "home")
        assert refused.returncode == 1
        assert "its file system is read-only" in refused.stderr
        assert "done" in run_command("status", "--home", disk / "home").stdout
        assert "1 done" in run_command("runs", "--home", disk / "home").stdout
        verified = run_command("verify", "--home", disk / "home")
        assert verified.returncode == 0, verified.stdout
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_run_without_its_journal_is_said_to_have_none(recipe: Path) -> None:
    home = recipe / "home"
    assert run_command("run", recipe, "--home", home).returncode == 0
    (run,) = (home / "runs").iterdir()
    for path in run.glob("journal.sqlite*"):
        path.unlink()
    asked = run_command("status", "--home", home)
    assert asked.returncode == 1
    assert "is missing" in asked.stderr
    assert "no journal" in run_command("runs", "--home", home).stdout
    assert not (run / "journal.sqlite").exists(), "reading a run creates no journal"
    assert "nothing to run" in run_command("run", recipe, "--home", home).stdout
