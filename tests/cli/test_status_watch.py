"""`recipe status --watch`: the table of a run, until the run ends."""

import re
from pathlib import Path

import pytest
from tests.cli.pseudo_terminal import run_on_terminal
from tests.recipe_command import RECIPE_COMMAND, run_command, start_command, wait_until
from tests.runtime.scripts_recipe import RECIPE

from posttrain.cli.status import selected_steps
from posttrain.runtime.inspection.run_status import StepStatus
from posttrain.runtime.store.journal import JournalEntry

SLOW = RECIPE.replace("echo counted", "while ! test -e GO; do sleep 0.1; done")


def test_the_table_follows_a_run_and_ends_with_it(tmp_path: Path) -> None:
    go, home = tmp_path / "go", tmp_path / "home"
    (tmp_path / "recipe.yaml").write_text(SLOW.replace("GO", str(go)))
    (tmp_path / "words.txt").write_text("one two\n")
    client = start_command("run", tmp_path, "--home", home, log=tmp_path / "log")
    wait_until(lambda: "count" in (tmp_path / "log").read_text(), "the first stage", client)
    try:
        shell = ["sh", "-c", f'(sleep 3; touch {go}) & exec "$@"', "sh"]
        shown, errors = run_on_terminal([*shell, *RECIPE_COMMAND, "status", "--home", home, "--watch"], 100)
        assert errors == ""
        frames = shown.split("\x1b[H")[1:]
        assert len(frames) >= 2
        assert ": running" in frames[0]
        assert re.search(r"count +running", frames[0])
        assert ": running" not in frames[-1]
        assert re.search(r"double +done", frames[-1])
    finally:
        go.touch()
        client.wait()


def journal_entry(id: str, state: str) -> JournalEntry:
    return JournalEntry(
        id=id, key="", state=state, reason="", advice="", attempt=1, began=None, ended=None, cost={}, facts={}
    )


@pytest.mark.parametrize("options", [(), ("--format", "json")])
def test_without_a_terminal_it_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run_command("status", "--home", tmp_path, "--watch", *options)
    assert done.returncode == 2
    assert "--watch needs a terminal" in done.stderr


def test_a_small_terminal_shows_what_runs_and_counts_the_others() -> None:
    states = [*["cached"] * 4, "running", *["waiting"] * 5, "failed"]
    steps = [
        StepStatus(entry=journal_entry(f"s{index}", state), facts={}, metrics={})
        for index, state in enumerate(states)
    ]
    shown, others = selected_steps(steps, 4)
    assert [step.entry.id for step in shown] == ["s0", "s4", "s10"]
    assert others == ["and 3 cached, 5 waiting"]
    assert selected_steps(steps, None) == (steps, ())
    assert selected_steps(steps, 11) == (steps, ())
