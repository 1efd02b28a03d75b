"""The source `hub`: loads a dataset with the `datasets` library from a local hub server."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.recipe_command import RECIPE_COMMAND
from tests.runtime.data.fake_dataset_hub import COMMIT, serve_hub

from posttrain.runtime.rows_io import read_rows

pytestmark = pytest.mark.slow
FILES = {
    "README.md": b"# name\n",
    "data/train.jsonl": b"".join(b'{"question": "%d+%d?", "n": %d, "x": 0}\n' % (n, n, n) for n in (1, 2, 3)),
}


def run(folder: Path, address: str, source: str) -> subprocess.CompletedProcess[str]:
    recipe = f"""\
recipe: 1
name: hub
datasets:
  it: {{from: {{hub: {source}}}}}
stages:
  look: {{script: ["true"], inputs: {{rows: it}}}}
"""
    (folder / "recipe.yaml").write_text(recipe)
    environment = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(folder / "hub")}
    command = [*RECIPE_COMMAND, "run", str(folder), "--home", str(folder / "home")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def rows(folder: Path) -> list[dict[str, object]]:
    (product,) = (folder / "home" / "store").glob("*/files/all.parquet")
    return read_rows(product.parent)


def test_rows_of_the_hub_are_fetched_and_typed(tmp_path: Path):
    with serve_hub("org/name", FILES) as address:
        done = run(
            tmp_path, address, "{name: org/name, split: 'train[:2]', columns: {question: text, n: number}}"
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert rows(tmp_path) == [{"question": "1+1?", "n": 1.0}, {"question": "2+2?", "n": 2.0}]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{name: org/none, columns: {question: text}}", "cannot load the dataset `org/none`"),
        (
            "{name: org/name, columns: {question: number}}",
            "the column `question` is declared as number but contains VARCHAR",
        ),
    ],
)
def test_what_is_not_there_ends_the_step_with_its_name(tmp_path: Path, source: str, message: str):
    with serve_hub("org/name", FILES) as address:
        done = run(tmp_path, address, source)
    assert done.returncode != 0
    assert message in done.stdout + done.stderr


TOKEN = "hf_" + "q8W" * 9
GATED = """\
recipe: 1
name: gated
datasets:
  it: {from: {hub: {name: org/name, revision: COMMIT, columns: {question: text}}}}
stages:
  look: {script: [sh, -c, "env > $OUT/variables"], inputs: {rows: it}, network: true}
"""


def run_gated(folder: Path, address: str, given: dict[str, str]) -> subprocess.CompletedProcess[str]:
    (folder / "recipe.yaml").write_text(GATED.replace("COMMIT", COMMIT))
    environment = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(folder / "hub"), **given}
    command = [*RECIPE_COMMAND, "run", str(folder), "--home", str(folder / "home")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def files_with_token(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]


@pytest.mark.parametrize("where", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "a file"])
def test_the_token_reaches_the_step_that_reads_the_hub_and_no_record(tmp_path: Path, where: str) -> None:
    (tmp_path / "hub").mkdir()
    if where == "a file":
        (tmp_path / "hub" / "token").write_text(TOKEN)
    given = {} if where == "a file" else {where: TOKEN}
    with serve_hub("org/name", FILES, TOKEN) as address:
        done = run_gated(tmp_path, address, given)
    assert done.returncode == 0, done.stdout + done.stderr
    (seen,) = (tmp_path / "home" / "store").glob("*/files/variables")
    names = {line.partition("=")[0] for line in seen.read_text().splitlines()}
    assert "HF_ENDPOINT" in names
    assert not names & {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "POSTTRAIN_SECRETS"}
    assert files_with_token(tmp_path / "home") == []
    assert TOKEN not in done.stdout + done.stderr


@pytest.mark.parametrize("token", [None, TOKEN])
def test_a_refused_token_is_in_no_message(tmp_path: Path, token: str | None) -> None:
    given = {"HF_TOKEN": token} if token else {}
    with serve_hub("org/name", FILES, "another") as address:
        done = run_gated(tmp_path, address, given)
    assert done.returncode != 0
    assert "cannot load the dataset `org/name`" in done.stdout + done.stderr
    assert files_with_token(tmp_path / "home") == []
    assert TOKEN not in done.stdout + done.stderr
