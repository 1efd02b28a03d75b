"""Conversations are parted before the assistant's last turn, and those that have none are told."""

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.data.making import Made, outcome

from posttrain.runtime.faults import StepFault

ASKED = {"role": "user", "content": "a"}
SAID = {"role": "assistant", "content": "b"}


def talks(*conversations: list[dict[str, str]], step: Any = None, before: Any = ()) -> dict[str, Any]:
    rows = [{"messages": turns, "label": True} for turns in conversations]
    source = {"rows": {"rows": rows, "columns": {"messages": "messages", "label": "boolean"}}}
    return {"it": {"from": source, "steps": [*before, {"last_turn": step or {}}]}}


def test_the_last_turn_is_the_completion(tmp_path: Path) -> None:
    found = Made(tmp_path, talks([ASKED, SAID], [ASKED, SAID, ASKED, SAID]))
    assert found.columns("it") == {"label": "boolean", "prompt": "messages", "completion": "messages"}
    assert found.rows("it") == [
        {"label": True, "prompt": [ASKED], "completion": [SAID]},
        {"label": True, "prompt": [ASKED, SAID, ASKED], "completion": [SAID]},
    ]


def test_the_columns_may_have_other_names(tmp_path: Path) -> None:
    found = Made(tmp_path, talks([ASKED, SAID], step={"prompt": "messages", "completion": "said"}))
    assert found.rows("it") == [{"label": True, "messages": [ASKED], "said": [SAID]}]


@pytest.mark.parametrize(
    ("turns", "said"),
    [([ASKED, SAID, ASKED], "ends on a turn of user"), ([SAID], "has 1 turns"), ([], "has 0 turns")],
)
def test_one_without_an_answer_is_told_and_can_be_left_out(
    turns: list[dict[str, str]], said: str, tmp_path: Path
) -> None:
    with pytest.raises(StepFault, match=f"row 2: `messages` {said}") as told:
        Made(tmp_path / "all", talks([ASKED, SAID], turns))
    kept = told.value.advice.split("`")[1]
    assert kept.startswith("where: ")
    found = Made(
        tmp_path / "kept", talks([ASKED, SAID], turns, before=[{"where": kept.removeprefix("where: ")}])
    )
    assert [row["prompt"] for row in found.rows("it")] == [[ASKED]]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"column": "label"}, "`label` is boolean; messages is wanted"),
        ({"column": "talk"}, "there is no column `talk` here"),
        ({"prompt": "label"}, "there is a column `label` already"),
        ({"prompt": "x", "completion": "x"}, "`prompt` and `completion` are two columns"),
    ],
)
def test_columns_that_do_not_fit_are_told_by_the_compiler(step: dict[str, str], said: str) -> None:
    found = outcome(talks([ASKED, SAID], step=step))
    assert said in " ".join(one.message for one in found.diagnostics)
