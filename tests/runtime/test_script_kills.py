"""Kills at random instants of runs with user programs: nothing is lost, and no finished step runs again."""

import random
import time
from pathlib import Path

import pytest
from tests.recipe_command import product_path, run_command, start_command

from posttrain.cli.compile import compile_file
from posttrain.runtime.rows_io import read_rows
from posttrain.runtime.store.home import Home

ITEMS, KILLS = 12, 10
RECIPE = """\
recipe: 1
name: killed
datasets:
  numbers:
    from: {rows: %s}
    steps:
      - python:
          call: rows.py:square
          with: {log: "%s", seconds: %s}
          columns: {n: integer, square: integer}
stages:
  worked:
    script: [python, work.py]
    files: [work.py]
    inputs: {rows: numbers}
    args: {log: "%s", seconds: %s}
    outputs: {rows: {rows: {n: integer, square: integer}}}
  look: {script: [sh, -c, "ls inputs/worked > outputs/names"], inputs: {worked: worked.rows}}
"""
ROWS = """\
import time
def square(row, log, seconds):
    if row["n"] == 0:
        print("start", file=open(log, "a"))
    time.sleep(seconds)
    return {**row, "square": row["n"] ** 2}
"""
WORK = """\
import argparse, json, time
from pathlib import Path
import duckdb
parser = argparse.ArgumentParser()
parser.add_argument("--log")
parser.add_argument("--seconds", type=float)
options = parser.parse_args()
log = open(options.log, "a")
print("start", file=log, flush=True)
rows = duckdb.sql("SELECT n, square FROM 'inputs/rows/all.parquet' ORDER BY n").fetchall()
for n, square in rows:
    done = Path("state", str(n))
    if not done.exists():
        print("item", n, file=log, flush=True)
        time.sleep(options.seconds)
        done.with_suffix(".new").write_text(str(square))
        done.with_suffix(".new").rename(done)
with open("outputs/rows.jsonl", "w") as file:
    for n, _ in rows:
        file.write(json.dumps({"n": n, "square": int(Path("state", str(n)).read_text())}) + "\\n")
"""
STEPS = {"datasets.numbers": "rows.log", "worked": "work.log"}


def starts(folder: Path, log: str) -> int:
    path = folder / log
    return path.read_text().count("start") if path.exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize("slow", ["datasets.numbers", "worked"])
def test_kills_at_random_instants_lose_and_repeat_nothing(tmp_path: Path, slow: str) -> None:
    times = [0.2 if step == slow else 0.0 for step in STEPS]
    rows = [{"n": n} for n in range(ITEMS)]
    logs = [str(tmp_path / log) for log in STEPS.values()]
    text = RECIPE % (str(rows).replace("'", ""), logs[0], times[0], logs[1], times[1])
    for name, content in {"recipe.yaml": text, "rows.py": ROWS, "work.py": WORK}.items():
        (tmp_path / name).write_text(content)
    plan = compile_file(tmp_path / "recipe.yaml", (), ())[0].plan
    assert plan is not None
    home, draw, killed = Home(tmp_path / "home"), random.Random(slow), 0
    for _ in range(KILLS):
        finished = {
            step: starts(tmp_path, log)
            for step, log in STEPS.items()
            if _is_stored(home, plan.step(step).key)
        }
        client = start_command("run", tmp_path, "--home", home.root, log=tmp_path / "log")
        time.sleep(draw.uniform(0.1, 3.0))
        killed += client.poll() is None
        client.kill()
        client.wait(timeout=60)
        assert {step: starts(tmp_path, STEPS[step]) for step in finished} == finished
    assert killed >= KILLS // 2
    done = run_command("run", tmp_path, "--home", home.root)
    assert done.returncode == 0, done.stdout + done.stderr
    assert read_rows(product_path(home.root, "worked") / "rows") == [
        {"n": n, "square": n * n} for n in range(ITEMS)
    ]
    # An item is repeated only if a kill hit it.
    items = (tmp_path / "work.log").read_text().count("item")
    assert ITEMS <= items <= ITEMS + killed
    before = [starts(tmp_path, log) for log in STEPS.values()]
    assert "nothing to run" in run_command("run", tmp_path, "--home", home.root).stdout
    assert [starts(tmp_path, log) for log in STEPS.values()] == before


def _is_stored(home: Home, key: str) -> bool:
    return home.store.find(key) is not None
