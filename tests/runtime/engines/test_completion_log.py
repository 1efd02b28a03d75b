"""The log of completions, from which a killed step resumes."""

from pathlib import Path

import pytest

from posttrain.runtime.engines.completion_log import Completion, CompletionLog

PROMPTS = ["1+1=", "2+2="]
FIRST, SECOND = Completion("2", 1, "stop"), Completion("4 \u00fc \ud800", None, "length")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "replies" / "model.jsonl"
    log = CompletionLog(path, PROMPTS, 1)
    log.add(0, 0, FIRST)
    log.add(1, 0, SECOND)
    log.close()
    return path


def reopened(path: Path) -> dict[tuple[int, int], Completion]:
    log = CompletionLog(path, PROMPTS, 1)
    log.close()
    return log.entries()


def test_completions_are_read_as_they_were_written(path: Path) -> None:
    assert reopened(path) == {(0, 0): FIRST, (1, 0): SECOND}


def test_a_damaged_line_is_ignored_whatever_bit_flips(path: Path) -> None:
    """Its completion is generated again: it could be another one than the model wrote."""
    data = path.read_bytes()
    end = data.index(b"\n")
    for place in range(8 * end):
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        assert reopened(path) in ({(1, 0): SECOND}, {(0, 0): FIRST, (1, 0): SECOND})


def test_another_log_gives_only_intact_completions(path: Path, tmp_path: Path) -> None:
    path.write_text(path.read_text().replace('"text": "2"', '"text": "3"'))
    log = CompletionLog(tmp_path / "own.jsonl", PROMPTS, 1)
    log.adopt(path)
    log.close()
    assert log.entries() == {(1, 0): SECOND}
