"""Checks the roles of turns, and that each result of a tool answers a call."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.spec.suggestions import closest_match

ROLES = ("system", "developer", "user", "assistant", "tool")
_ADVICE = "correct the row, or filter out such rows in the dataset's steps"
Turns = Sequence[Mapping[str, Any]]


def check_turn_order(conversations: Iterable[tuple[int, Turns]]) -> None:
    """Raise StepError for the first numbered row whose turns contradict each other."""
    for number, turns in conversations:
        problem = _find_problem(turns)
        if problem is not None:
            raise StepError(f"row {number}: {problem}", _ADVICE)


def _find_problem(turns: Turns) -> str | None:
    before = ""
    # The ids of the calls that the next results answer. Calls can have none.
    calls: list[str | None] = []
    answered: list[str | None] = []
    for place, turn in enumerate(turns, 1):
        role = turn["role"]
        if role not in ROLES and (meant := closest_match(role, ROLES)) is not None:
            return f"turn {place} has the role `{role}`: did you mean `{meant}`?"
        if role == "tool":
            problem = "follows no turn of the assistant" if before not in ("assistant", "tool") else None
            problem = problem or _result_problem(turn.get("tool_call_id"), calls, answered)
            if problem is not None:
                return f"turn {place}, the result of a tool, {problem}"
            answered.append(turn.get("tool_call_id"))
        elif turn.get("tool_call_id"):
            return f"turn {place} of `{role}` has a `tool_call_id`, which only results of tools have"
        else:
            calls, answered = [call.get("id") for call in turn.get("tool_calls") or ()], []
        before = role
    return None


def _result_problem(
    id: str | None, calls: Sequence[str | None], answered: Sequence[str | None]
) -> str | None:
    """What is wrong with a result, if anything. A turn without calls can have them in its text."""
    if not calls:
        return None
    if len(answered) == len(calls):
        return f"is one more than the {len(calls)} calls before it"
    if id is None or None in calls:
        return None
    if id not in calls:
        return f"has the `tool_call_id` {id}, but the calls are {', '.join(map(str, calls))}"
    return f"answers the call {id} again" if id in answered else None
