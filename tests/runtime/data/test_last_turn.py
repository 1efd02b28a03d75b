"""The data op `last_turn`: splits conversations, and reports those that do not end with the assistant."""

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.data.build_datasets import BuiltDatasets, compile_datasets

from posttrain.runtime.errors import StepError

USER_TURN = {"role": "user", "content": "a"}
ASSISTANT_TURN = {"role": "assistant", "content": "b"}


def conversation_dataset(
    *conversations: list[dict[str, str]], step: Any = None, before: Any = ()
) -> dict[str, Any]:
    rows = [{"messages": turns, "label": True} for turns in conversations]
    source = {"rows": {"rows": rows, "columns": {"messages": "messages", "label": "boolean"}}}
    return {"it": {"from": source, "steps": [*before, {"last_turn": step or {}}]}}


def test_the_last_turn_is_the_completion(tmp_path: Path) -> None:
    found = BuiltDatasets(
        tmp_path,
        conversation_dataset(
            [USER_TURN, ASSISTANT_TURN], [USER_TURN, ASSISTANT_TURN, USER_TURN, ASSISTANT_TURN]
        ),
    )
    assert found.columns("it") == {"label": "boolean", "prompt": "messages", "completion": "messages"}
    assert found.rows("it") == [
        {"label": True, "prompt": [USER_TURN], "completion": [ASSISTANT_TURN]},
        {"label": True, "prompt": [USER_TURN, ASSISTANT_TURN, USER_TURN], "completion": [ASSISTANT_TURN]},
    ]


def test_the_columns_may_have_other_names(tmp_path: Path) -> None:
    found = BuiltDatasets(
        tmp_path,
        conversation_dataset([USER_TURN, ASSISTANT_TURN], step={"prompt": "messages", "completion": "said"}),
    )
    assert found.rows("it") == [{"label": True, "messages": [USER_TURN], "said": [ASSISTANT_TURN]}]


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        ([USER_TURN, ASSISTANT_TURN, USER_TURN], "ends with a turn of user, not of the assistant"),
        ([ASSISTANT_TURN], "has 1 turn; "),
        ([], "has 0 turns; "),
    ],
)
def test_one_without_an_answer_is_told_and_can_be_left_out(
    turns: list[dict[str, str]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(StepError, match=f"row 2: `messages` {message}") as raised:
        BuiltDatasets(tmp_path / "all", conversation_dataset([USER_TURN, ASSISTANT_TURN], turns))
    condition = raised.value.advice.split("`")[1]
    assert condition.startswith("where: ")
    found = BuiltDatasets(
        tmp_path / "filtered",
        conversation_dataset(
            [USER_TURN, ASSISTANT_TURN], turns, before=[{"where": condition.removeprefix("where: ")}]
        ),
    )
    assert [row["prompt"] for row in found.rows("it")] == [[USER_TURN]]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"column": "label"}, "`label` has type boolean; expected messages"),
        ({"column": "talk"}, "missing column `talk`; the columns are "),
        ({"prompt": "label"}, "a column `label` already exists"),
        ({"prompt": "x", "completion": "x"}, "`prompt` and `completion` must be different columns"),
    ],
)
def test_columns_that_do_not_fit_are_told_by_the_compiler(step: dict[str, str], message: str) -> None:
    found = compile_datasets(conversation_dataset([USER_TURN, ASSISTANT_TURN], step=step))
    assert message in " ".join(one.message for one in found.diagnostics)
