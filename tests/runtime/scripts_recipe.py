"""A recipe of two programs, compiled and run without the command line."""

from pathlib import Path

from posttrain.cli.compile import compile_file
from posttrain.runtime.execution.run_observer import RunObserver
from posttrain.runtime.execution.run_plan import RunOptions, RunResult, run_plan
from posttrain.runtime.store.home import Home
from posttrain.spec.plan import Plan

RECIPE = """\
recipe: 1
name: programs
stages:
  count: {script: [sh, -c, "echo counted; wc -w < words.txt > $OUT/count"], files: [words.txt]}
  double:
    script: [sh, -c, "echo $(( 2 * $(cat $INPUT_NUMBER/count) )) > $OUT/count"]
    inputs: {number: count}
"""
FAILING = RECIPE.replace("echo counted", "exit 3")
SLEEPING = RECIPE.replace("echo counted", "sleep 300")


def compile_text(folder: Path, text: str) -> tuple[Plan, RunOptions]:
    """The plan of a recipe in a folder, and the options to run it."""
    recipe = folder / "recipe.yaml"
    recipe.write_text(text)
    (folder / "words.txt").write_text("one two three\n")
    plan = compile_file(recipe, (), ())[0].plan
    assert plan is not None
    return plan, RunOptions(recipe=recipe)


def run_text(folder: Path, text: str, home: Home, observer: RunObserver | None = None) -> RunResult:
    plan, options = compile_text(folder, text)
    return run_plan(plan, home, options, observer)
