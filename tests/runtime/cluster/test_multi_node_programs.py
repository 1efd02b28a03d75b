"""Two nodes without an engine: the same bytes as two local ranks, and the causes of failures."""

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.recipe_command import wait_until
from tests.runtime.cluster.node_trainings import (
    LocalNodes,
    home_without_product,
    trained_files,
    write_training,
)

from posttrain.runtime.errors import STOPPED

pytestmark = pytest.mark.slow


@pytest.fixture
def nodes(local: Path, tmp_path: Path) -> Iterator[LocalNodes]:
    """Two nodes with a home of their own, which has the model and the data."""
    found = LocalNodes(write_training(tmp_path / "recipe", nodes=2), home_without_product(local, tmp_path))
    yield found
    found.end()


def test_two_nodes_train_the_bytes_of_two_local_ranks(local: Path, nodes: LocalNodes) -> None:
    files = nodes.start()
    assert nodes.wait(files) == 0, nodes.failure()
    assert nodes.files() == trained_files(local, nodes=1)
    assert [program.wait(timeout=30) for program in nodes.programs] == [0, 0]
    assert (nodes.work / "record" / "rank-1.log").exists()


def test_a_killed_rank_of_another_node_is_named_and_the_next_attempt_resumes(
    local: Path, nodes: LocalNodes
) -> None:
    files = nodes.start()
    nodes.wait_for_checkpoints(1)
    os.kill(nodes.rank(1), signal.SIGKILL)
    assert nodes.wait(files, seconds=60) == 1
    failure = nodes.failure()
    assert failure["message"].startswith("process 1 of 2 was killed by signal 9")
    assert failure["message"].endswith("on node n2")
    assert failure["retriable"]
    assert [program.wait(timeout=30) for program in nodes.programs] == [0, 0]
    again = nodes.start()
    assert nodes.wait(again) == 0, nodes.failure()
    events = (nodes.work / "record" / "events.jsonl").read_text()
    assert '"resumed"' in events
    assert nodes.files() == trained_files(local, nodes=1)


def test_a_stop_of_both_nodes_saves_one_checkpoint(nodes: LocalNodes) -> None:
    files = nodes.start()
    nodes.wait_for_checkpoints(1)
    files.request_stop(now=False)
    assert nodes.wait(files, seconds=60) == STOPPED
    steps = sorted(int(path.parent.name.partition("-")[2]) for path in nodes.checkpoints())
    events = [json.loads(line) for line in (nodes.work / "record/events.jsonl").read_text().splitlines()]
    assert steps[-1] == max(event["step"] for event in events if event["kind"] == "metrics")
    assert [program.wait(timeout=30) for program in nodes.programs] == [0, 0]


def test_a_frozen_node_is_lost_and_writes_nothing_when_it_continues(local: Path, nodes: LocalNodes) -> None:
    files = nodes.start()
    nodes.wait_for_checkpoints(1)
    frozen = nodes.freeze(1)
    assert nodes.wait(files, seconds=60) == 1
    failure = nodes.failure()
    assert failure["message"].startswith("node n2 is lost")
    assert failure["retriable"]
    late = nodes.programs[1]
    again = nodes.start()  # removes the folder of the first attempt
    for pid in frozen:
        with contextlib.suppress(ProcessLookupError):  # its parent has ended it
            os.kill(pid, signal.SIGCONT)
    wait_until(lambda: late.poll() is not None, "the end of the late node", seconds=60)
    assert not files.folder.exists()
    assert nodes.wait(again) == 0, nodes.failure()
    assert nodes.files() == trained_files(local, nodes=1)
