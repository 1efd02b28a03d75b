"""The matched column set of a method, rejected rows, and warnings about rows."""

from collections.abc import Sequence
from typing import Any

import pytest

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.errors import StepError
from posttrain.runtime.training.row_statistics import row_statistics
from posttrain.runtime.training.validate_rows import Row, match_columns, row_warnings, validate_rows
from posttrain.spec.extension import Method


def method(name: str) -> Method:
    found = CATALOG.find("method", name)
    assert isinstance(found, Method)
    return found


def question_turns(*turns: str) -> list[dict[str, str]]:
    """Parse turns: text that ends with a question mark is the user's."""
    return [{"role": "user" if turn.endswith("?") else "assistant", "content": turn} for turn in turns]


def warnings_for(rows: Sequence[Row]) -> list[str]:
    return [message for message, _ in row_warnings(row_statistics(columns_of(rows)))]


def columns_of(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.mark.parametrize(
    ("name", "row", "columns"),
    [
        ("sft", {"prompt": "1?", "messages": question_turns("1?", "2")}, {"messages"}),
        (
            "sft",
            {"prompt": "1?", "completion": "2", "messages": question_turns("1?", "2")},
            {"prompt", "completion"},
        ),
        ("sft", {"text": "1? 2", "answer": 2}, {"text"}),
        (
            "dpo",
            {"prompt": "1?", "chosen": question_turns("1?", "2"), "rejected": question_turns("1?", "3")},
            {"chosen", "rejected"},
        ),
        (
            "dpo",
            {"prompt": "1?", "chosen": question_turns("2"), "rejected": question_turns("3")},
            {"prompt", "chosen", "rejected"},
        ),
        (
            "kto",
            {"prompt": "1?", "chosen": "2", "rejected": "3", "completion": "2", "label": True},
            {"prompt", "chosen", "rejected"},
        ),
        ("grpo", {"prompt": question_turns("1?"), "answer": "2"}, {"prompt"}),
    ],
)
def test_rows_are_read_by_the_first_set_that_they_have(name: str, row: Row, columns: set[str]) -> None:
    """A prompt column is ignored if the conversations start with the prompt."""
    assert set(match_columns(columns_of([row]), method(name))) == columns


def test_columns_of_other_types_are_refused() -> None:
    with pytest.raises(StepError, match=r"the rows have prompt \(text\), completion \(integer\)") as raised:
        match_columns(columns_of([{"prompt": "1?", "completion": 2}]), method("sft"))
    assert "rename or derive columns" in raised.value.advice


def test_the_form_is_that_of_the_first_value_that_there_is() -> None:
    rows: list[Any] = [{"messages": None}, {"messages": []}, {"messages": question_turns("1?", "2")}]
    assert match_columns(columns_of(rows), method("sft")) == {"messages": "messages"}


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        (
            "sft",
            [{"messages": question_turns("1?", "2")}, {"messages": None}],
            "1 of 2 rows have a null in the column",
        ),
        (
            "sft",
            [{"messages": question_turns("1?")}],
            "no assistant turn in `messages`; the first is row 1",
        ),
        ("sft", [{"messages": [{"role": "assistant", "content": None}]}], "a turn without text"),
        ("dpo", [{"chosen": question_turns("2"), "rejected": question_turns("3")}], "no prompt"),
        (
            "cpo",
            [{"chosen": question_turns("1?", "2", "why?"), "rejected": question_turns("1?", "3")}],
            "does not end with",
        ),
        ("ipo", [{"prompt": "1?", "chosen": "3", "rejected": "3"}], "are equal in all 1 rows"),
        ("orpo", [{"prompt": "1?", "chosen": " ", "rejected": "3"}], "`chosen` is empty in all 1 rows"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(name: str, rows: list[Row], message: str) -> None:
    how = method(name)
    with pytest.raises(StepError, match=message) as raised:
        validate_rows(rows, match_columns(columns_of(rows), how), how, template=True)
    assert raised.value.advice


def test_a_scorer_needs_no_prompt() -> None:
    how = method("reward_model")
    rows = [{"chosen": question_turns("2"), "rejected": question_turns("3")}]
    validate_rows(rows, match_columns(columns_of(rows), how), how, template=True)


def test_conversations_need_a_template() -> None:
    how = method("sft")
    rows = [{"messages": question_turns("1?", "2")}]
    with pytest.raises(StepError, match="the model has no chat template"):
        validate_rows(rows, match_columns(columns_of(rows), how), how, template=False)


def test_sound_rows_are_passed_in_silence() -> None:
    assert warnings_for([{"prompt": "1?", "completion": "2"}, {"prompt": "2?", "completion": "3"}]) == []
    assert (
        warnings_for(
            [{"prompt": question_turns("1?"), "chosen": question_turns("2"), "rejected": question_turns("3")}]
            * 2
        )
        == []
    )
    assert warnings_for([{"messages": question_turns("1?", "2")}]) == []
    assert (
        warnings_for(
            [
                {"prompt": "1?", "completion": "2", "label": True},
                {"prompt": "1?", "completion": "3", "label": False},
            ]
        )
        == []
    )


def test_what_is_striking_is_remarked() -> None:
    assert warnings_for([{"prompt": "1?", "completion": ""}, {"prompt": "2?", "completion": "3"}]) == [
        "1 of 2 rows have an empty `completion`: the model learns to generate nothing"
    ]
    assert (
        "every `completion` starts with its prompt"
        in warnings_for([{"prompt": "1?", "completion": "1? 2"}] * 2)[0]
    )
    turns = [{"role": "bot", "content": "2"}, *question_turns("1?", "2", "3?")]
    assert warnings_for([{"messages": turns}]) == [
        "`messages` has the roles `bot`, which are not those of chat models",
        "1 of 1 conversations do not end with an assistant turn",
    ]
    assert warnings_for([{"prompt": "1?", "completion": "2", "label": False}] * 2) == [
        "`label` is false in all 2 rows: there is no contrast"
    ]
