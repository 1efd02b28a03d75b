"""Checks the rows of a training stage: column types, assistant turns, and pairs that differ.

The checks run before the trainer reads the rows. Otherwise the trainer fails with an obscure error, or trains
on the wrong tokens.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.training.row_statistics import (
    TARGET_COLUMNS,
    RowStatistics,
    row_statistics,
    turn_roles,
)
from posttrain.runtime.turn_fields import check_row_turns
from posttrain.runtime.turn_order import ROLES
from posttrain.spec.column_types import Columns, Type, is_assignable
from posttrain.spec.extension import Method

Row = Mapping[str, Any]


def match_columns(values: Mapping[str, Iterable[Any]], method: Method) -> Columns:
    """Return the first of the method's column sets that matches the columns and types of the rows.

    `values` are the values of each column, in the order of the rows.
    """
    forms = {name: _column_type(iter(column)) for name, column in values.items()}
    for accepted in method.accepts:
        if all(name in forms and is_assignable(type, forms[name]) for name, type in accepted.items()):
            return _add_text_prompt(accepted, forms, values)
    readable = " or ".join(_format_columns(accepted) for accepted in method.accepts)
    raise StepError(
        f"`{method.name}` reads {readable}; the rows have {_format_columns(forms)}",
        "rename or derive columns in the dataset's steps, or declare their types in its source",
    )


@dataclass(frozen=True)
class RowCheck:
    """What is wrong with some rows, and which ones."""

    what: str
    advice: str
    bad: Iterator[bool]
    # The column whose roles the advice shows, if they are not those of chat models.
    roles_of: str | None = None


def validate_rows(rows: Sequence[Row], columns: Columns, method: Method, *, template: bool) -> None:
    """Raise StepError for rows that the method cannot train on; `template`: the model has a chat template."""
    for check in row_checks(columns, method, rows, template=template):
        bad = [number for number, is_bad in enumerate(check.bad, 1) if is_bad]
        if bad:
            roles = set() if check.roles_of is None else turn_roles(row[check.roles_of] for row in rows)
            raise bad_rows_error(check.what, check.advice, len(bad), len(rows), bad[0], roles)
    check_contents(columns, row_statistics({name: [row[name] for row in rows] for name in columns}))


def bad_rows_error(what: str, advice: str, bad: int, rows: int, first: int, roles: set[str]) -> StepError:
    """The error for rows that a check rejects. Advice about roles depends on those of all rows."""
    if not roles <= set(ROLES):
        advice = (
            f"the roles are {_format_names(sorted(roles))}: rename them with the data step `conversations`"
        )
    return StepError(f"{bad} of {rows} rows have {what}; the first is row {first}", advice)


def row_checks(
    columns: Columns, method: Method, rows: Sequence[Row], *, template: bool, first: int = 1
) -> Iterator[RowCheck]:
    """Yield the checks of rows, in order. A check can rely on those before it. `first` is the number of the
    first row.

    Raises StepError for the first row with a field that would be lost.
    """
    for name in columns:
        yield RowCheck(
            f"a null in the column `{name}`", _drop_nulls_advice(name), (row[name] is None for row in rows)
        )
    talks = [name for name, type in columns.items() if type == "messages"]
    if talks and not template:
        raise StepError(
            f"the column `{talks[0]}` contains conversations, but the model has no chat template",
            "set `chat_template` (such as chatml) or `tags` of the model, or train on text columns",
        )
    for name in talks:
        yield from _turn_checks(rows, name, first)
        yield from _weight_checks(rows, name, method)
    if "prompt" not in columns and "chosen" in columns and method.product == "policy":
        differ = (row["chosen"][0] != row["rejected"][0] for row in rows)
        advice = "the shared first turns are the prompt: start both with the user's turn"
        yield RowCheck("no prompt: `chosen` and `rejected` start with different turns", advice, differ)


def check_contents(columns: Columns, statistics: RowStatistics) -> None:
    """Raise StepError if no row has anything to train on."""
    rows = statistics.rows
    for name in columns:
        if name in TARGET_COLUMNS and name != "rejected" and statistics.blank.get(name) == rows:
            message = f"`{name}` is empty in all {rows} rows: there is nothing to train on"
            raise StepError(message, "check the dataset's source and the steps that fill this column")
    if "chosen" in columns and statistics.equal_pairs == rows:
        message = f"`chosen` and `rejected` are equal in all {rows} rows: there is nothing to train on"
        raise StepError(message, "check the dataset's source and the steps that fill these columns")


def row_warnings(statistics: RowStatistics) -> Iterator[tuple[str, str]]:
    """Yield warnings about valid but suspicious rows, each as a message and advice."""
    rows = statistics.rows
    for name in ("prompt", *TARGET_COLUMNS):
        blank = statistics.blank.get(name, 0)
        if blank and name != "messages":
            effect = "" if name in ("prompt", "rejected") else ": the model learns to generate nothing"
            advice = "if this is not intended, filter them out with the data step `where`"
            yield f"{blank} of {rows} rows have an empty `{name}`{effect}", advice
        yield from _role_warnings(name, statistics)
    if statistics.equal_pairs:
        message = f"`chosen` and `rejected` are equal in {statistics.equal_pairs} of {rows} rows"
        yield message, "filter them out with the data step `where: chosen <> rejected`"
    if len(statistics.labels) == 1:
        (label,) = statistics.labels
        message = f"`label` is {label} in all {rows} rows: there is no contrast"
        yield message, "add rows with the other label, or train with sft on the desirable ones"
    for name in ("completion", "chosen"):
        if rows > 1 and statistics.repeated_prompts.get(name) == rows:
            message = f"every `{name}` starts with its prompt, so the model reads the prompt twice"
            yield message, f"for text, remove it: `derive: {{{name}: substr({name}, length(prompt) + 1)}}`"


def _role_warnings(name: str, statistics: RowStatistics) -> Iterator[tuple[str, str]]:
    roles = sorted(set(statistics.roles.get(name, ())) - set(ROLES))
    if roles:
        message = f"`{name}` has the roles {_format_names(roles)}, which are not those of chat models"
        yield message, "rename the roles to system, user and assistant with the data step `conversations`"
    if name == "messages" and statistics.unanswered:
        count = f"{statistics.unanswered} of {statistics.rows}"
        message = f"{count} conversations do not end with an assistant turn"
        yield message, "the loss ignores that last turn: remove it, or add the missing answer"


def _add_text_prompt(accepted: Columns, forms: Columns, values: Mapping[str, Iterable[Any]]) -> Columns:
    """Add a text prompt in its own column to pairs of conversations that do not start with the prompt."""
    apart = "prompt" not in accepted and "chosen" in accepted and forms.get("prompt") == "text"
    if not apart:
        return accepted
    pairs = zip(values["chosen"], values["rejected"], strict=True)
    shared = any(_first_turn(chosen) == _first_turn(rejected) for chosen, rejected in pairs)
    return accepted if shared else {"prompt": "text", **accepted}


def _first_turn(turns: Any) -> Any:
    return turns[0] if turns else None


def _turn_checks(rows: Sequence[Row], name: str, first: int) -> Iterator[RowCheck]:
    advice = "filter them out in the dataset's steps, or fix the source"
    yield RowCheck(f"no turns in `{name}`", advice, (not row[name] for row in rows))
    wordless = (any(not _has_words(turn) for turn in row[name]) for row in rows)
    yield RowCheck(f"a turn without text in `{name}`", "set `role` and `content` in every turn", wordless)
    check_row_turns(rows, name, first)
    if name not in TARGET_COLUMNS:
        return
    if name == "messages":
        none = (all(turn["role"] != "assistant" for turn in row[name]) for row in rows)
        yield RowCheck(f"no assistant turn in `{name}`", advice, none, name)
    else:
        other = (row[name][-1]["role"] != "assistant" for row in rows)
        yield RowCheck(f"a `{name}` that does not end with an assistant turn", advice, other, name)


def _has_words(turn: Mapping[str, Any]) -> bool:
    return isinstance(turn.get("content"), str) or bool(turn.get("tool_calls"))


def _weight_checks(rows: Sequence[Row], name: str, method: Method) -> Iterator[RowCheck]:
    """Refuse weights of turns that the loss of the method would ignore."""
    if name in TARGET_COLUMNS and not method.turn_weights:
        weighted = (any("weight" in turn for turn in row[name]) for row in rows)
        advice = "remove `train` and `weight` from the turns, or train with sft"
        what = f"a turn with `train` or `weight` in `{name}`, which the loss of {method.name} ignores"
        yield RowCheck(what, advice, weighted)


def _drop_nulls_advice(name: str) -> str:
    return f"filter them out with the data step `where: {name} IS NOT NULL`"


def _column_type(values: Iterator[Any]) -> Type:
    """Return the type of a column, from its first value that is neither null nor an empty list."""
    form = "any"
    for value in values:
        match value:
            case None | []:
                continue
            case bool():
                return "boolean"
            case int():
                return "integer"
            case float():
                return "number"
            case str():
                return "text"
            case [{"role": _, "content": _} | {"role": _, "tool_calls": _}, *_]:
                return "messages"
            case _:
                return "list<any>"
    return form


def _format_columns(columns: Columns) -> str:
    return ", ".join(f"{name} ({type})" for name, type in columns.items())


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:5])
