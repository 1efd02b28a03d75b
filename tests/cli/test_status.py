"""`recipe status`: the results of steps from their products, as text and as JSON."""

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.recipe_command import TINY_RECIPE, product_path, run_command

from posttrain.cli.results import result_data, result_lines
from posttrain.runtime.event_tail import last_metrics


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the tiny recipe until the first eval."""
    folder = tmp_path_factory.mktemp("status") / "home"
    done = run_command("run", TINY_RECIPE, "--home", folder, "--until", "before")
    assert "sft" in done.stdout, done.stderr
    return folder


def steps(home: Path) -> dict[str, dict[str, Any]]:
    found = json.loads(run_command("status", "--home", home, "--format", "json").stdout)["steps"]
    return {step["id"]: step["outcome"] for step in found}


@pytest.mark.slow
def test_each_step_has_its_result(home: Path) -> None:
    found = steps(home)
    assert found["datasets.sums"] == {"rows": {"test": 17, "train": 64}}
    metric = found["before"]["metrics"]["format"]
    value, low, high = (metric[end] for end in ("value", "low", "high"))
    assert low <= value <= high
    loss = found["sft"]["last_metrics"]["loss"]
    shown = {line.split()[0]: line for line in run_command("status", "--home", home).stdout.splitlines()[2:]}
    assert f"loss {loss:.4g}" in shown["sft"]
    assert f"format {value:.3f} [{low:.3f}, {high:.3f}]" in shown["before"]
    assert "17 test rows  64 train rows" in shown["datasets.sums"]
    assert found["grpo"] == {}


@pytest.mark.slow
def test_the_log_of_a_step_is_printed_and_an_empty_one_is_explained(home: Path) -> None:
    quiet = run_command("logs", "datasets.sums", "--home", home)
    assert (quiet.returncode, quiet.stdout) == (0, "")
    assert "`datasets.sums` has printed nothing" in quiet.stderr
    trained = run_command("logs", "sft", "--home", home)
    assert (trained.returncode, trained.stderr) == (0, "")
    assert not re.search(r"\d+%\|", trained.stdout)
    assert re.search(r"^step \d+  loss \d", trained.stdout, re.MULTILINE)
    assert "did you mean `sft`" in run_command("logs", "stf", "--home", home).stderr


@pytest.mark.slow
def test_a_log_has_its_progress_bars_only_on_request(home: Path) -> None:
    bar = "Map:  40%|####      | 4/10 [00:01<00:02,  2.9 examples/s]\n"
    with (product_path(home, "sft").parent / "record" / "log").open("a") as log:
        log.write(bar)
    assert bar not in run_command("logs", "sft", "--home", home).stdout
    raw = run_command("logs", "sft", "--home", home, "--raw").stdout
    assert bar in raw
    assert "step 1 " not in raw


@pytest.mark.slow
def test_results_come_from_the_product_and_not_from_the_journal(home: Path) -> None:
    (journal,) = home.glob("runs/*/journal.sqlite")
    before = steps(home)
    with sqlite3.connect(journal) as db:
        wrong = json.dumps({"metrics": {"format": {"value": 1.0, "low": 1.0, "high": 1.0}}})
        assert db.execute("UPDATE step SET facts = ? WHERE id = 'before'", [wrong]).rowcount == 1
    db.close()
    assert steps(home) == before


METRIC = {"kind": "rate", "node": "n", "value": 0.5, "low": 0.25, "high": 0.75, "count": 8}
VERDICT = {
    "verdict": "fail",
    "conditions": [
        {"text": "a at least 1", "verdict": "fail", "value": 0.5, "low": 0.25, "high": 0.75},
        {"text": "b at least 0", "verdict": "pass", "value": 0.5, "low": 0.25, "high": 0.75},
    ],
}


def test_a_verdict_is_short_as_text_and_complete_as_data() -> None:
    assert result_lines(VERDICT, 3) == ["verdict: fail"]
    assert result_lines(VERDICT) == ["verdict: fail", "a at least 1: 0.5 [0.25, 0.75]"]
    result = result_data(VERDICT)
    assert result["verdict"] == "fail"
    assert result["conditions"] == [
        {"text": "a at least 1", "verdict": "fail"},
        {"text": "b at least 0", "verdict": "pass"},
    ]


def test_of_many_metrics_the_first_are_shown_and_the_others_counted() -> None:
    metrics = {f"m{number}": METRIC for number in range(5)}
    unknown = {"none": {**METRIC, "value": None, "low": None, "high": None}}
    facts = {"metrics": {**unknown, **metrics}, "unscored": 0.125}
    assert result_lines(facts, 2) == [
        "m0 0.500 [0.250, 0.750]",
        "m1 0.500 [0.250, 0.750]",
        "and 3 more",
        "12.5% unscored",
    ]
    assert len(result_data(facts)["metrics"]) == 6


def test_the_last_metrics_are_read_from_the_end_of_long_event_files(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    assert last_metrics(events) == {}
    early = {"kind": "metrics", "step": 1, "values": {"loss": 9.0}}
    late = {"kind": "metrics", "step": 2, "values": {"loss": 1.5, "reward": 2.0, "entropy": 3.0}}
    other = {"kind": "metrics", "step": 2, "values": {"eval/format": 1.0}}
    filling = {"kind": "sample", "prompt": "x" * 300_000}
    lines = [json.dumps(event) for event in (early, filling, late, other)]
    events.write_text("\n".join(lines) + '\n{"kind": "metrics", "val')
    assert last_metrics(events) == {"loss": 1.5, "reward": 2.0}
    evaluated = {"at": 1.0, "kind": "metrics", "step": 9, "values": {"eval/loss": 0.75}}
    later = {**evaluated, "step": 10, "values": {"loss": 0.5}}
    with events.open("a") as file:
        file.writelines("\n" + json.dumps(one) for one in (evaluated, later))
    assert last_metrics(events) == {"loss": 0.5, "eval/loss": 0.75}


@pytest.mark.parametrize("command", ["status", "runs", "logs sft", "path sft"])
def test_a_run_is_inspected_without_pydantic(home: Path, command: str) -> None:
    program = [sys.executable, "-X", "importtime", "-m", "posttrain.cli.main", *command.split()]
    done = subprocess.run([*program, "--home", home], capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "posttrain.runtime.store.home" in imported
    assert "pydantic" not in imported


@pytest.mark.parametrize(
    "facts",
    [
        {"metrics": {"a": 5, "b": {"value": 0.5, "low": 0.25, "high": {}}}, "conditions": 7, "unscored": "x"},
        {"metrics": [1], "conditions": [5, {"text": "a"}, {"text": "a", "verdict": "fail", "low": []}]},
    ],
)
def test_facts_of_another_release_break_no_status(facts: dict[str, object]) -> None:
    found = [line for line in result_lines(facts) if "fail" not in line]
    assert found in (["b 0.500"], [])
    assert set(result_data(facts)) <= {"metrics", "conditions"}
