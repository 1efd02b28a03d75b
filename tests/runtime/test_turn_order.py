"""Results of tools answer calls, and roles are spelt correctly."""

from typing import Any

import pytest

from posttrain.runtime.errors import StepError
from posttrain.runtime.turn_order import check_turn_order

ASK = {"role": "user", "content": "q"}
ANSWER = {"role": "assistant", "content": "a"}


def calls(*ids: str | None) -> dict[str, Any]:
    function = {"name": "add", "arguments": {}}
    return {
        "role": "assistant",
        "tool_calls": [{"function": function, **({} if id is None else {"id": id})} for id in ids],
    }


def result(id: str | None = None) -> dict[str, Any]:
    return {"role": "tool", "content": "2", **({} if id is None else {"tool_call_id": id})}


WRONG: dict[str, tuple[list[dict[str, Any]], str]] = {
    "role": ([ASK, {"role": "asistant", "content": "a"}], "turn 2 has the role `asistant`: did you mean"),
    "case": ([{"role": "User", "content": "a"}], "turn 1 has the role `User`: did you mean `user`"),
    "first": ([result(), ANSWER], "turn 1, the result of a tool, follows no turn of the assistant"),
    "after a question": ([ASK, result()], "turn 2, the result of a tool, follows no turn of the assistant"),
    "another id": ([ASK, calls("a", "b"), result("c")], "has the `tool_call_id` c, but the calls are a, b"),
    "twice": ([ASK, calls("a", "b"), result("a"), result("a")], "answers the call a again"),
    "too many": ([ASK, calls(None), result(), result()], "turn 4, .* is one more than the 1 calls before it"),
    "id of a user": ([{**ASK, "tool_call_id": "a"}], "turn 1 of `user` has a `tool_call_id`"),
}


@pytest.mark.parametrize("name", WRONG)
def test_contradictions_are_errors(name: str) -> None:
    turns, said = WRONG[name]
    with pytest.raises(StepError, match=f"row 2: .*{said}") as caught:
        check_turn_order([(1, [ASK, ANSWER]), (2, turns)])
    assert caught.value.advice


@pytest.mark.parametrize(
    "turns",
    [
        [ASK, calls("a", "b"), result("b"), result("a"), ANSWER, ASK, calls("a"), result("a")],
        [ASK, calls(None), result("a"), ANSWER],
        [ASK, calls("a"), result(), ANSWER],
        [ASK, calls("a"), ASK, ANSWER],
        [ASK, {"role": "assistant", "content": "<tool_call>{}</tool_call>"}, result(), result()],
        [{"role": "critic", "content": "x"}, ASK, ANSWER],
    ],
)
def test_other_orders_are_accepted(turns: list[dict[str, Any]]) -> None:
    check_turn_order([(1, turns)])
