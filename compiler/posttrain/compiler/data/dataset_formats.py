"""Recognizes the column layouts of other tools, and suggests the data step that converts them."""

from collections.abc import Sequence

from posttrain.spec.column_types import Columns, is_assignable
from posttrain.spec.suggestions import closest_match

_CONVERSIONS = {
    ("instruction", "input", "output"): "derive: {prompt: \"instruction || chr(10) || coalesce(input, '')\","
    " completion: output}",
    ("instruction", "output"): "rename: {instruction: prompt, output: completion}",
    ("conversations",): "conversations: {column: conversations}",
    ("conversation",): "conversations: {column: conversation}",
    ("question", "answer"): "rename: {question: prompt, answer: completion}",
    ("prompt", "response"): "rename: {response: completion}",
    ("query", "response"): "rename: {query: prompt, response: completion}",
    ("input", "output"): "rename: {input: prompt, output: completion}",
    ("problem", "solution"): "rename: {problem: prompt, solution: completion}",
}
# The columns that these steps produce.
_CONVERTED_COLUMNS = {"prompt", "completion", "messages"}


def column_advice(columns: Columns, accepted: Sequence[Columns]) -> str:
    """Return a suggestion that converts these columns to columns that the method accepts."""
    for accepted_columns in accepted:
        renaming = _misspelled_column(columns, accepted_columns)
        if renaming:
            return f"add the step `rename: {{{renaming}}}`"
    for accepted_columns in accepted:
        if accepted_columns.keys() <= columns.keys():
            types = ", ".join(f"{name}: {type}" for name, type in accepted_columns.items())
            return f"declare their types in the source: `columns: {{{types}}}`"
    if columns.get("messages") == "messages" and any(
        _from_conversation(columns, accepted_columns) for accepted_columns in accepted
    ):
        return "add the step `last_turn: {}`: it makes the last assistant turn the completion"
    readable = any(set(accepted_columns) <= _CONVERTED_COLUMNS for accepted_columns in accepted)
    if "question" in columns and any(set(accepted_columns) == {"prompt"} for accepted_columns in accepted):
        return "add the step `rename: {question: prompt}`"
    for names, step in _CONVERSIONS.items():
        if readable and all(name in columns for name in names):
            return f"add the step `{step}`"
    return "rename or derive columns in the steps of the dataset"


def _from_conversation(columns: Columns, required: Columns) -> bool:
    """Return whether splitting off the last turn of a conversation gives the required columns."""
    result = {**columns, "prompt": "messages", "completion": "messages"}
    return "chosen" not in required and all(
        is_assignable(type, result.get(name, "")) for name, type in required.items()
    )


def _misspelled_column(columns: Columns, required: Columns) -> str:
    """Return the value for `rename` if one required column has a misspelled name, else an empty string."""
    missing = [name for name in required if name not in columns]
    if len(missing) != 1 or any(
        n in columns and not is_assignable(t, columns[n]) for n, t in required.items()
    ):
        return ""
    others = [name for name, type in columns.items() if name not in required and type == required[missing[0]]]
    meant = closest_match(missing[0], others)
    return f"{meant}: {missing[0]}" if meant else ""
