"""Special files, loops and huge files: each is reported quickly, without a traceback."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.recipe_command import RECIPE_COMMAND, run_command

HEAD = "recipe: 1\nname: it\n"
STAGES = "stages: {a: {script: [sh, -c, exit], files: [FILE]}}\n"


def validate_errors(folder: Path, text: str) -> str:
    (folder / "recipe.yaml").write_text(text)
    ended = run_command("validate", folder)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "internal error" not in ended.stderr
    return ended.stderr


def fifo(path: Path) -> None:
    os.mkfifo(path)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (fifo, "is not a regular file"),
        (loop, "is a symbolic link to itself"),
        (endless, "is a symbolic link to /dev/zero, which is outside the recipe's folder"),
        (folder, "is a folder, not a file"),
    ],
)
def test_special_files_are_not_read(make: Callable[[Path], None], cause: str, tmp_path: Path) -> None:
    make(tmp_path / "odd.yaml")
    for text in (f"{HEAD}extends: odd.yaml\n", HEAD + STAGES.replace("FILE", "odd.yaml")):
        assert f"`odd.yaml` {cause}" in validate_errors(tmp_path, text)


@pytest.mark.parametrize("name", ['"a\\0b"', "a" * 5000, "'*.jsonl'", "~/x.yaml", "https://localhost/x.yaml"])
def test_invalid_file_names(name: str, tmp_path: Path) -> None:
    assert "error[PT0111]" in validate_errors(tmp_path, f"{HEAD}extends: {name}\n")
    assert "error[PT0409]" in validate_errors(tmp_path, HEAD + STAGES.replace("FILE", name))


@pytest.mark.parametrize("make", [fifo, loop, endless])
def test_a_recipe_that_is_a_special_file(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "recipe.yaml")
    ended = run_command("validate", tmp_path)
    assert ended.returncode == 2
    assert "pass a recipe file" in ended.stderr


def test_exponentially_many_files_are_rejected(tmp_path: Path) -> None:
    for level in range(30):
        for side in "ab":
            below = f"extends: [a{level + 1}.yaml, b{level + 1}.yaml]\n" if level < 29 else "seed: 1\n"
            (tmp_path / f"{side}{level}.yaml").write_text(below)
    errors = validate_errors(tmp_path, f"{HEAD}extends: [a0.yaml, b0.yaml]\n{STAGES.replace('[FILE]', '[]')}")
    assert errors.count("at most 64 files") == 1


def test_a_long_chain_of_files_is_rejected(tmp_path: Path) -> None:
    for level in range(1500):
        (tmp_path / f"e{level}.yaml").write_text(f"extends: e{level + 1}.yaml\n")
    (tmp_path / "e1500.yaml").write_text("seed: 1\n")
    assert "at most 64 files" in validate_errors(
        tmp_path, f"{HEAD}extends: e0.yaml\n{STAGES.replace('[FILE]', '[]')}"
    )


def test_a_long_chain_of_variables_is_rejected(tmp_path: Path) -> None:
    names = "".join(f'  a{n}: "${{vars.a{n + 1}}}"\n' for n in range(3000))
    text = f"{HEAD}description: ${{vars.a0}}\nvars:\n{names}  a3000: x\n{STAGES.replace('[FILE]', '[]')}"
    assert "more than 64 nested variable references" in validate_errors(tmp_path, text)


def test_a_huge_file_is_not_read_completely(tmp_path: Path) -> None:
    with (tmp_path / "recipe.yaml").open("wb") as file:
        file.truncate(8 * 2**30)  # a sparse file: it uses no disk space
    command = ["sh", "-c", 'ulimit -v 2000000; exec "$@"', "sh"]
    ended = subprocess.run(
        [*command, *RECIPE_COMMAND, "validate", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "error[PT0104]" in ended.stderr


MODEL = """\
models: {m: {from: ./mine}}
stages: {out: {export: m}}
"""


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json"])
def test_a_huge_file_of_a_model_is_not_read(name: str, tmp_path: Path) -> None:
    model = tmp_path / "mine"
    model.mkdir()
    (model / "config.json").write_text("{}")
    with (model / name).open("wb") as file:
        file.truncate(200 * 2**30)  # without blocks on the disk
    assert "so it is not a file of a model" in validate_errors(tmp_path, HEAD + MODEL)


@pytest.mark.parametrize(
    "text", ["[" * 10**6, '{"a":' * 10**6, '{"hidden_size": 1' + "0" * 4000 + "}", "null", "[]"]
)
def test_a_hostile_configuration_of_a_model(text: str, tmp_path: Path) -> None:
    model = tmp_path / "mine"
    model.mkdir()
    (model / "config.json").write_text(text)
    (model / "model.safetensors").write_text("x")
    (model / "model.safetensors.index.json").write_text(text)
    (model / "generation_config.json").write_text(text)
    hardware = "hardware: {gpus: 1xH100}\n"
    (tmp_path / "recipe.yaml").write_text(HEAD + hardware + MODEL)
    ended = run_command("validate", tmp_path)
    assert "Traceback" not in ended.stderr
    assert "internal error" not in ended.stderr
