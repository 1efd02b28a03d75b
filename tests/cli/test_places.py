"""The option --on of the commands: the file of places, requests and scripts. No cluster answers here."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.recipe_command import TINY_RECIPE

from posttrain.cli.main import main
from posttrain.cli.place_option import places_file

PLACES = """\
lab: {engine: slurm, partition: gpu, memory_gb: 2, gpus_per_node: 0}
pool: {engine: ray, keep_alive_seconds: 30.0, home: /shared/home}
wrong: {engine: slurm, partion: gpu}
"""


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "places.yaml"
    file.write_text(PLACES)
    monkeypatch.setenv("RECIPE_PLACES", str(file))
    monkeypatch.delenv("RECIPE_HOME", raising=False)
    return file


def recipe(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def plan(home: Path, *arguments: str) -> Result:
    return recipe("plan", TINY_RECIPE, "--home", home, *arguments)


def test_the_plan_shows_what_each_step_requests(tmp_path: Path) -> None:
    shown = plan(tmp_path / "home", "--on", "lab")
    assert shown.exit_code == 0, shown.output
    assert "requests at lab (slurm, partition gpu):" in shown.output
    assert "grpo           1 core, 2 GB  own job" in shown.output
    assert "shared node" in plan(tmp_path / "home", "--on", "pool").output


def test_the_plan_prints_a_script_for_each_step(tmp_path: Path) -> None:
    shown = plan(tmp_path / "home", "--on", "lab", "--format", "sbatch")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.count("#!/bin/bash") == 8
    assert "#SBATCH --partition=gpu" in shown.stdout
    assert "--no-requeue" in shown.stdout


def test_a_place_changes_no_key(tmp_path: Path) -> None:
    here = plan(tmp_path / "home", "--format", "json").stdout
    there = plan(tmp_path / "home", "--format", "json", "--on", "lab").stdout
    assert here == there
    assert "slurm" not in json.dumps(json.loads(here))


def test_a_place_with_an_error_is_not_used_and_the_others_are(tmp_path: Path) -> None:
    refused = plan(tmp_path / "home", "--on", "wrong")
    assert refused.exit_code == 1
    assert "unknown key `partion`" in refused.stderr
    assert "3:24" in refused.stderr or "places.yaml:3" in refused.stderr
    used = plan(tmp_path / "home", "--on", "lab")
    assert used.exit_code == 0
    assert used.stderr == "", "the error of another place does not concern this run"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--on", "lap"), "has no place `lap`; did you mean `lab`?"),
        (("--format", "sbatch"), "needs a place with Slurm: add --on PLACE"),
        (("--on", "pool", "--format", "sbatch"), "has the engine ray, which has no batch scripts"),
    ],
)
def test_misuse(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    refused = plan(tmp_path / "home", *arguments)
    assert refused.exit_code == 2
    assert message in refused.stderr


def test_a_missing_file_is_named_with_an_example(places: Path, tmp_path: Path) -> None:
    places.unlink()
    for command in (("plan", TINY_RECIPE), ("run", TINY_RECIPE), ("doctor",)):
        refused = recipe(*command, "--home", tmp_path / "home", "--on", "lab")
        assert refused.exit_code == 2
        assert str(places) in refused.stderr
        assert "engine: slurm" in refused.stderr


def test_the_file_is_in_the_configuration_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECIPE_PLACES")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert places_file() == tmp_path / "posttrain" / "places.yaml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert places_file() == tmp_path / ".config" / "posttrain" / "places.yaml"


def test_a_run_without_slurm_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    refused = recipe("run", TINY_RECIPE, "--home", tmp_path / "home", "--on", "lab")
    assert refused.exit_code == 1
    assert "this machine has no `sbatch`" in refused.output
    assert not (tmp_path / "home" / "runs").exists()
