"""The declared outputs of script stages: rows and models that are checked, and used by later stages."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.recipe_command import product_path, run_command

from posttrain.runtime.rows_io import read_rows

ROWS = """\
recipe: 1
name: rows
datasets:
  sums:
    from: {arithmetic: {digits: 1, count: 20, seed: 1}}
    steps: [split: {test: 5}]
  longest: {from: scored, steps: [where: size >= 4]}
stages:
  scored:
    script: [python, score.py]
    files: [score.py]
    inputs: {rows: sums.train}
    args: {column: prompt, factor: 2, strict: true, quiet: false, tags: [a b, "$HOME; false"]}
    outputs: {rows: {rows: {prompt: text, size: integer}}}
  look: {script: [sh, -c, "ls inputs/longest > outputs/names"], inputs: {longest: longest}}
"""
SCORE = """\
import json, os, sys
import duckdb
rows = duckdb.sql("SELECT prompt FROM 'inputs/rows/*.parquet'").fetchall()
with open("outputs/arguments.json", "w") as file:
    json.dump([sys.argv[1:], sorted(os.listdir("inputs/rows")), os.environ["SEED"]], file)
with open("outputs/rows.jsonl", "w") as file:
    for (prompt,) in rows:
        file.write(json.dumps({"prompt": prompt, "size": len(prompt)}) + "\\n")
"""


def run_recipe(folder: Path, text: str, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, content in {"recipe.yaml": text, **files}.items():
        (folder / name).write_text(content)
    return run_command("run", folder, "--home", folder / "home")


def assert_succeeds(folder: Path, text: str, files: dict[str, str]) -> None:
    done = run_recipe(folder, text, files)
    assert done.returncode == 0, done.stdout + done.stderr


def failure_of(folder: Path, text: str, files: dict[str, str]) -> str:
    done = run_recipe(folder, text, files)
    assert done.returncode == 1, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


def files_of(folder: Path, stage: str) -> Path:
    return product_path(folder / "home", stage)


def test_rows_of_a_program_are_a_dataset(tmp_path: Path) -> None:
    assert_succeeds(tmp_path, ROWS, {"score.py": SCORE})
    rows = read_rows(files_of(tmp_path, "datasets.longest"))
    assert len(rows) == 15
    assert {len(row["prompt"]) for row in rows} == {4}
    product = files_of(tmp_path, "scored")
    assert sorted(path.name for path in (product / "rows").iterdir()) == ["all.parquet", "parts.txt"]
    arguments, names, seed = json.loads((product / "arguments.json").read_text())
    assert arguments == ["--column", "prompt", "--factor", "2", "--strict", "--tags", "a b", "$HOME; false"]
    assert names == ["train.parquet"]  # the test rows are not there
    assert int(seed) > 0
    assert (files_of(tmp_path, "look") / "names").read_text().split() == ["all.parquet", "parts.txt"]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('{"prompt": "a", "size": "many"}', "row 1: "),
        ('{"prompt": "a", "size": 1, "more": 2}', "the column `more`, which is not declared"),
        ('{"prompt": "a"}', "the column `size` is null in every row"),
        ('{"prompt": "a", "size": 1', "cannot read rows.jsonl"),
    ],
)
def test_rows_are_checked(tmp_path: Path, written: str, message: str) -> None:
    line = f"open('outputs/rows.jsonl', 'w').write({written!r})\n"
    failure = failure_of(tmp_path, ROWS, {"score.py": line})
    assert "the output `rows`: " in failure
    assert message in failure


def test_a_missing_file_of_rows_is_named(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, ROWS, {"score.py": "pass\n"})
    assert "wrote no outputs/rows.jsonl or outputs/rows.parquet" in failure


MODEL = """\
recipe: 1
name: models
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2}
    tokenizer: {init: characters, alphabet: "0123456789+="}
datasets:
  sums: {from: {arithmetic: {digits: 1, count: 40, seed: 1}}, steps: [{rename: {answer: target}}]}
stages:
  made:
    script: [python, make.py]
    files: [make.py]
    inputs: {base: base}
    outputs: {model: {like: base}, copy: model}
  tuned: {train: sft, model: made.model, data: sums, params: {max_steps: 2, batch_size: 4}}
  adapted:
    train: sft
    model: made.copy
    data: sums
    adapter: {type: lora, r: 4}
    params: {max_steps: 2, batch_size: 4}
  again: {train: sft, model: adapted, data: sums, params: {max_steps: 2, batch_size: 4}}
  whole: {export: adapted}
  alone: {export: made.model}
"""
COPY = """\
import shutil
shutil.copytree("inputs/base", "outputs/model")
shutil.copytree("inputs/base", "outputs/copy")
"""


def test_a_model_of_a_program_is_trained_and_exported(tmp_path: Path) -> None:
    assert_succeeds(tmp_path, MODEL, {"make.py": COPY})
    base = json.loads((files_of(tmp_path, "adapted") / "base.json").read_text())
    assert base["output"] == "copy"
    assert (files_of(tmp_path, "whole") / "model.safetensors").exists()
    card = (files_of(tmp_path, "alone") / "README.md").read_text()
    assert "Made by the program `python make.py` from `models.base`." in card
    checked = run_command("verify", "--home", tmp_path / "home")
    assert checked.returncode == 0, checked.stdout + checked.stderr


CONFIG = """\
import json
path = "outputs/model/config.json"
config = json.load(open(path))
"""


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("pass", "the program wrote no folder outputs/copy"),
        (COPY + 'import os; os.remove("outputs/model/config.json")', "its config.json is missing"),
        (COPY + 'import os; os.remove("outputs/model/model.safetensors")', "it has no safetensors weights"),
        (COPY + 'import os; os.remove("outputs/model/tokenizer.json")', "tokenizer"),
        (COPY + 'open("outputs/model/adapter_config.json", "w").write("{}")', "it is an adapter of PEFT"),
        (
            COPY + 'f = open("outputs/model/model.safetensors", "r+b"); f.truncate(2000)',
            "the model's weights cannot be read",
        ),
        (
            COPY + CONFIG + "config['hidden_size'] = 64; json.dump(config, open(path, 'w'))",
            "the weights do not match config.json",
        ),
        (
            COPY + CONFIG + "config['max_position_embeddings'] = 7; json.dump(config, open(path, 'w'))",
            "its `max_position_embeddings` is not that of the input `base`: 7 instead of",
        ),
        (
            COPY
            + "from safetensors.torch import load_file, save_file\n"
            + "path = 'outputs/model/model.safetensors'\n"
            + "weights = load_file(path); next(iter(weights.values())).view(-1)[0] = float('nan')\n"
            + "save_file(weights, path, metadata={'format': 'pt'})",
            "has values that are not finite",
        ),
    ],
)
def test_models_are_checked(tmp_path: Path, program: str, message: str) -> None:
    short = MODEL[: MODEL.index("  tuned:")]
    failure = failure_of(tmp_path, short, {"make.py": program + "\n"})
    assert "the output `" in failure
    assert message in failure


RESUMED = """\
recipe: 1
name: resumed
stages:
  count: {script: [sh, count.sh], files: [count.sh], retry: {attempts: 3, wait_seconds: 0.01}}
"""
COUNT = """\
echo x >> state/attempts
test -e outputs/partial && exit 9
echo partial > outputs/partial
test $(wc -l < state/attempts) = 3 || kill -9 $PPID
cp state/attempts outputs/attempts
"""


def test_the_state_of_an_attempt_survives_and_its_outputs_do_not(tmp_path: Path) -> None:
    assert_succeeds(tmp_path, RESUMED, {"count.sh": COUNT})
    assert (files_of(tmp_path, "count") / "attempts").read_text() == "x\nx\nx\n"
