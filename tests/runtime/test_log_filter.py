"""Logs without progress bars, with the events of the step."""

import io
import json
from pathlib import Path

import pytest

from posttrain.runtime.inspection.log_filter import LogFilter
from posttrain.runtime.inspection.step_log import StepLog, read_log


def real_bars() -> str:
    """What tqdm writes, with and without a total, around text of a program."""
    from tqdm import tqdm

    out = io.StringIO()
    out.write("before\n")
    for _ in tqdm(range(30), desc="Map", file=out, mininterval=0):
        pass
    for _ in tqdm(iter(range(30)), file=out, mininterval=0):
        pass
    for _ in tqdm(
        range(3), desc="Loading weights", unit="B", unit_scale=True, file=out, ascii=True, mininterval=0
    ):
        pass
    out.write("after\n")
    return out.getvalue()


@pytest.mark.parametrize("size", [1, 7, 1000, 10**6])
def test_bars_of_tqdm_are_removed_in_pieces_of_any_size(size: int) -> None:
    text = real_bars()
    assert text.count("it/s") > 10
    log = LogFilter()
    shown = "".join(log.feed(text[at : at + size]) for at in range(0, len(text), size)) + log.end()
    assert shown == "before\nafter\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("\n\n", "\n\n"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("10%\r20%\rdone\n", "done\n"),
        ("accuracy 40%| of items |\n", "accuracy 40%| of items |\n"),
        ("no line feed", "no line feed"),
        ("Map:  40%|####  | 4/10 [00:01<00:02]\rKeyError: 'x'\n", "KeyError: 'x'\n"),
    ],
)
def test_other_text_is_kept(text: str, shown: str) -> None:
    log = LogFilter()
    assert log.feed(text) + log.end() == shown


def test_a_hanging_program_shows_its_incomplete_line() -> None:
    log = LogFilter()
    assert log.feed("waiting for the server") == ""
    assert log.feed("") == "waiting for the server"
    assert log.feed(" ... ready\n") == " ... ready\n"


def test_the_log_of_a_failed_step_ends_with_what_it_printed(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("loading\nCUDA out of memory\n")
    events = [
        {"at": 1.0, "kind": "started", "attempt": 2},
        {"at": 1.0, "kind": "resumed", "step": 8},
        {
            "at": 2.0,
            "kind": "metrics",
            "step": 9,
            "values": {"loss": 0.25, "note": "x", "cost/memory_mb": 1.0},
        },
        {"at": 2.5, "kind": "progress", "done": 9, "total": 10, "unit": "steps"},
        {"at": 3.0, "kind": "checkpoint", "step": 9},
        {"at": 4.0, "kind": "warning", "message": "rows are long", "advice": ""},
    ]
    (tmp_path / "events.jsonl").write_text(
        "".join(json.dumps(event) + "\n" for event in events) + '{"kind": "met'
    )
    added = (
        "attempt 2\nresumed after step 8\nstep 9  loss 0.25\ncheckpoint of step 9\nwarning: rows are long\n"
    )
    printed = (tmp_path / "log").read_text()
    for failed, expected in ((True, added + printed), (False, printed + added)):
        log = StepLog(
            log=tmp_path / "log", events=tmp_path / "events.jsonl", has_ended=lambda: True, has_failed=failed
        )
        assert "".join(read_log(log, follow=False)) == expected
        assert "".join(read_log(log, follow=True)) == expected
        assert "".join(read_log(log, follow=False, raw=True)) == printed
