"""Eval and generate stages with endpoints, from the recipe to the product, including a killed run."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from tests.recipe_command import product_path, run_command, start_command, wait_until
from tests.runtime.engines.misbehaving_server import (
    Exchange,
    FakeServer,
    echo,
    prompt_of,
    run_server,
    send_response,
)

from posttrain.runtime.engines.usage_log import USAGE_FILE, read_usage

RECIPE = """\
recipe: 1
name: asking
endpoints:
  writer: {provider: openai, model: m, base_url: "URL", api_key: {env: WRITER_KEY}, concurrency: 3,
      max_retries: 1}
  other: {provider: vllm, model: n, base_url: "URL"}
datasets:
  words:
    from: {files: words.jsonl}
rewards:
  loud:
    reads: {completion: text, prompt: text}
    nodes:
      right: {score: {when: {contains: {of: completion, part: {text: WORD}}}, then: 1.0}}
    returns: right
stages:
STAGES
"""
EVAL = "  check: {eval: writer, data: words, reward: loud, metrics: {loud: right}}"
GENERATE = "  more: {generate: writer, data: words, reward: loud, keep: {min_score: 0.5}}"
COUNT = 40


@pytest.fixture
def wild(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    monkeypatch.setenv("WRITER_KEY", "s3cret-value")
    with run_server(FakeServer(echo)) as found:
        yield found


def recipe(folder: Path, wild: FakeServer, *stages: str) -> Path:
    folder.mkdir(exist_ok=True)
    rows = [{"prompt": f"word {n}"} for n in range(COUNT - 1)] + [{"prompt": "silence"}]
    (folder / "words.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = RECIPE.replace("URL", wild.url).replace("STAGES", "\n".join(stages))
    (folder / "recipe.yaml").write_text(text)
    return folder / "recipe.yaml"


def run(path: Path, home: Path) -> None:
    found = run_command("run", path, "--home", home)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.slow
def test_an_endpoint_is_measured_and_writes(tmp_path: Path, wild: FakeServer):
    path, home = recipe(tmp_path / "r", wild, EVAL, GENERATE), tmp_path / "home"
    run(path, home)
    metrics = json.loads((product_path(home, "check") / "metrics.json").read_text())
    assert metrics["loud"]["value"] == (COUNT - 1) / COUNT
    assert metrics["truncated"]["value"] == metrics["timed_out"]["value"] == 0.0
    rows = parquet.read_table(product_path(home, "more") / "all.parquet").to_pylist()
    assert [row["completion"] for row in rows] == [f"WORD {n}" for n in range(COUNT - 1)]
    assert len(wild.requests) == 2 * COUNT
    for stage in ("check", "more"):
        used = read_usage(product_path(home, stage).parent / "record" / USAGE_FILE)["writer"]
        assert used.requests == COUNT
        assert used.uncounted == 0
    report = next((home / "runs").glob("*/report.html")).read_text()
    assert "API calls, measured and planned" in report
    # A generate step is cached. An eval of an endpoint is not: another run repeats it.
    run(path, home)
    assert len(wild.requests) == 3 * COUNT
    leaked = [file for file in home.rglob("*") if file.is_file() and b"s3cret-value" in file.read_bytes()]
    assert leaked == []


@pytest.mark.slow
@pytest.mark.parametrize("stage", [EVAL, GENERATE])
def test_a_killed_step_asks_for_no_row_twice(tmp_path: Path, wild: FakeServer, stage: str):
    enough = threading.Event()

    def behave(wild: FakeServer, exchange: Exchange, body: dict[str, object], number: int) -> None:
        if number >= 15:
            enough.set()
        time.sleep(0.05)
        echo(wild, exchange, body, number)

    wild.behave = behave
    path, home = recipe(tmp_path / "r", wild, stage), tmp_path / "home"
    client = start_command("run", path, "--home", home, log=tmp_path / "log")
    wait_until(enough.is_set, "fifteen requests", client)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    wait_until(lambda: wild.in_flight == 0, "the last answers")
    killed = len(wild.requests)
    assert 15 <= killed < COUNT
    run(path, home)
    # Each row is requested once, except for requests in flight: at most three, the endpoint's concurrency.
    assert COUNT <= len(wild.requests) <= COUNT + 3


@pytest.mark.slow
def test_rows_that_never_came_fail_the_step_and_are_asked_for_alone(tmp_path: Path, wild: FakeServer):
    def behave(wild: FakeServer, exchange: Exchange, body: dict[str, object], number: int) -> None:
        if prompt_of(body).endswith("3"):
            send_response(exchange, 500, b"no", retry_after="0")
        else:
            echo(wild, exchange, body, number)

    wild.behave = behave
    path, home = recipe(tmp_path / "r", wild, GENERATE), tmp_path / "home"
    found = run_command("run", path, "--home", home)
    assert found.returncode == 1
    assert "4 of 40 completions failed" in found.stdout + found.stderr
    asked = len(wild.requests)
    path.write_text(
        path.read_text().replace("keep: {min_score: 0.5}", "keep: {min_score: 0.5}, max_failed_ratio: 0.1")
    )
    run(path, home)
    assert len(wild.requests) == asked + 8  # the four, twice each
    rows = parquet.read_table(product_path(home, "more") / "all.parquet").to_pylist()
    assert len(rows) == COUNT - 5  # and the one that says the wrong thing


@pytest.mark.slow
def test_several_endpoints_are_compared_item_by_item(tmp_path: Path, wild: FakeServer):
    def behave(wild: FakeServer, exchange: Exchange, body: dict[str, object], number: int) -> None:
        if body["model"] == "n" and prompt_of(body).endswith("7"):
            send_response(exchange, 400, b"not that one")
        else:
            echo(wild, exchange, body, number)

    wild.behave = behave
    stages = (
        "  check: {eval: [writer, other], data: words, reward: loud, metrics: {loud: right}}",
        "  ship: {gate: [{metric: check.other.loud, better_than: check.writer.loud, margin: -0.5}]}",
    )
    path, home = recipe(tmp_path / "r", wild, *stages), tmp_path / "home"
    run(path, home)
    metrics = json.loads((product_path(home, "check") / "metrics.json").read_text())
    assert metrics["writer.loud"]["items"] == COUNT
    assert (metrics["other.loud"]["items"], metrics["other.loud"]["unscored"]) == (COUNT - 4, 4)
    result = json.loads((product_path(home, "check") / "comparisons.json").read_text())
    (compared,) = [one for one in result if one["metric"] == "loud"]
    assert (compared["model"], compared["baseline"], compared["value"]) == ("other", "writer", 0.0)
    assert compared["items"] == COUNT - 4
    verdict = json.loads((product_path(home, "ship") / "verdict.json").read_text())
    assert verdict["verdict"] == "pass"
    assert verdict["conditions"][0]["items"] == COUNT - 4
