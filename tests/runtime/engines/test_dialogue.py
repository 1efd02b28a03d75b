"""Conversations between two models: twenty questions through a server, including a killed run."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from tests.recipe_command import product_path, run_command, start_command, wait_until
from tests.runtime.engines.misbehaving_server import (
    Exchange,
    FakeServer,
    chat_response,
    run_server,
    send_response,
)

RECIPE = """\
recipe: 1
name: questions
endpoints:
  guesser: {provider: openai, model: guesser, base_url: "URL", concurrency: 2}
  knower: {provider: anthropic, model: knower, base_url: "URL", concurrency: 4}
datasets:
  secrets: {from: {rows: {rows: [{word: cat}, {word: dog}, {word: emu}, {word: yak}]}}}
  talks:
    from: play
    steps:
      - where: "finish = 'stop'"
stages:
  play:
    generate: guesser
    data: secrets
    sampling: {temperature: 0.7, max_tokens: 20}
    dialogue:
      with: knower
      max_turns: 3
      system: You guess an animal.
      with_system: "The word is {word}. Say DONE when it is named."
      opening: I think of a word of length 3.
      begin: Open the game.
      stop: [DONE]
"""
GUESSES = ["cat", "dog", "emu"]


def play(_wild: FakeServer, exchange: Exchange, body: dict[str, Any], _number: int) -> None:
    """The guesser names one animal after the other; the knower tells whether it is the one."""
    turns = body["messages"]
    if body["model"] == "guesser":
        assert turns[0] == {"role": "system", "content": "You guess an animal."}
        guess = GUESSES[sum(turn["role"] == "assistant" for turn in turns)]
        send_response(exchange, 200, chat_response(f"Is it a {guess}?"))
        return
    assert turns[0] == {"role": "user", "content": "Open the game."}
    assert turns[1] == {"role": "assistant", "content": "I think of a word of length 3."}
    found = body["system"].split()[3].rstrip(".") in turns[-1]["content"]
    said = "DONE" if found else "no"
    answer = {"content": [{"type": "text", "text": said}], "stop_reason": "end_turn", "usage": {}}
    send_response(exchange, 200, json.dumps(answer).encode())


@pytest.fixture
def wild() -> Iterator[FakeServer]:
    with run_server(FakeServer(play)) as found:
        yield found


@pytest.mark.slow
def test_twenty_questions_are_played_to_their_end(tmp_path: Path, wild: FakeServer):
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("URL", wild.url))
    enough = threading.Event()

    def behave(wild: FakeServer, exchange: Exchange, body: dict[str, Any], number: int) -> None:
        if number >= 9:
            enough.set()
        time.sleep(0.1)
        play(wild, exchange, body, number)

    wild.behave = behave
    home = tmp_path / "home"
    client = start_command("run", tmp_path, "--home", home, log=tmp_path / "log")
    wait_until(enough.is_set, "ten turns", client)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    wait_until(lambda: wild.in_flight == 0, "the last answers")
    found = run_command("run", tmp_path, "--home", home)
    assert found.returncode == 0, found.stdout + found.stderr
    rows = parquet.read_table(product_path(home, "play") / "all.parquet").to_pylist()
    assert [(row["word"], row["turns"], row["finish"]) for row in rows] == [
        ("cat", 3, "stop"),
        ("dog", 5, "stop"),
        ("emu", 6, "turns"),  # the third guess was the last turn
        ("yak", 6, "turns"),
    ]
    assert rows[1]["messages"] == [
        {"role": "system", "content": "You guess an animal."},
        {"role": "user", "content": "I think of a word of length 3."},
        {"role": "assistant", "content": "Is it a cat?"},
        {"role": "user", "content": "no"},
        {"role": "assistant", "content": "Is it a dog?"},
        {"role": "user", "content": "DONE"},
    ]
    # 4 + 4 turns, then 3 + 3, then 2, and the repeated requests that were in flight at the kill.
    assert 16 <= len(wild.requests) <= 16 + 4
