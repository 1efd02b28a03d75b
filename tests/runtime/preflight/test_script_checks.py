"""Programs of script stages and functions of data steps, before a run."""

import sys
from pathlib import Path

import pytest
from tests.runtime.preflight.preflight_recipe import check, compile_plan

from posttrain.runtime.artifacts.foreign_code import foreign_actions

RECIPE = """\
recipe: 1
name: programs
datasets:
  numbers:
    from: {rows: [{n: 1}]}
    steps:
      - python: {call: "rows.py:f", columns: {n: integer}, modules: [more.py]%s}
stages:
  work:
    script: %s
    files: [work.py, tool, setup.sh, words.txt]
    inputs: {rows: numbers}
    requires: %s
"""


def recipe(script: str = "[python, work.py]", requires: str = "[]", step: str = "") -> str:
    return RECIPE % (step, script, requires)


def write_files(folder: Path, function: str = "def f(row): ...") -> None:
    for name in ("more.py", "work.py", "tool", "setup.sh", "words.txt"):
        (folder / name).write_text("")
    (folder / "rows.py").write_text(function)


@pytest.mark.parametrize(
    ("script", "requires", "causes"),
    [
        ("[python, work.py]", "[pytest, duckdb]", []),
        ("[python3, work.py]", "[no-such-package]", ["requires no-such-package, which"]),
        ("[python, work.py]", "[duckdb==0.0.1]", ["requires duckdb==0.0.1, and"]),
        ("[./tool, x]", "[]", []),
        ("[./other, x]", "[]", ["runs `./other`, and there is no such program"]),
        ("[no-such-program]", "[pytest]", ["runs `no-such-program`, and there is no such program"]),
        ("[sh, setup.sh]", "[pytest]", []),
        (f"[{sys.executable}, work.py]", "[pytest]", []),
    ],
)
def test_a_program_and_its_packages(script: str, requires: str, causes: list[str], tmp_path: Path) -> None:
    write_files(tmp_path)
    found = check(tmp_path, recipe(script, requires))
    assert len(found) == len(causes)
    for one, cause in zip(found, causes, strict=True):
        assert cause in one.cause


@pytest.mark.parametrize(
    ("function", "step", "cause"),
    [
        ("def f(row): ...", "", None),
        ("def f(row):\n  yield row", "", None),
        ("def f(row, *, seed): ...", "", None),
        ("def f(row, low): ...", ", with: {low: 1}", None),
        ("import more\ndef f(row): ...", "", None),
        ("def g(row): ...", "", "the file does not define `f`"),
        ("def f(): ...", "", "`f` takes no positional argument for the row"),
        ("def f(row, low): ...", "", "`f` requires `low`, which the recipe does not pass"),
        ("def f(row): ...", ", with: {low: 1}", "`f` takes no arguments, and the recipe passes `low`"),
        ("async def f(row): ...", "", "`f` is a coroutine function, and its rows are not awaited"),
        ("def f(row) ...", "", "rows.py:1: expected ':'"),
        ("import no_such_module\ndef f(row): ...", "", "imports `no_such_module` (rows.py:1)"),
    ],
)
def test_a_function_of_a_data_step(function: str, step: str, cause: str | None, tmp_path: Path) -> None:
    write_files(tmp_path, function)
    found = check(tmp_path, recipe(step=step))
    assert len(found) == (cause is not None)
    assert cause is None or cause in found[0].cause


def test_all_code_is_listed_before_a_recipe_of_someone_else_runs(tmp_path: Path) -> None:
    write_files(tmp_path)
    assert foreign_actions(compile_plan(tmp_path, recipe())) == [
        "runs the Python code in rows.py (datasets.numbers)",
        "runs the Python code in more.py (datasets.numbers)",
        'runs the program ["python", "work.py"] (work)',
        "runs the Python code in work.py (work)",
        "runs the code in tool (work)",
        "runs the code in setup.sh (work)",
    ]
