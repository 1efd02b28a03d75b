"""Checks the rows of a training stage: column types, assistant turns, and pairs that differ.

The checks run before the trainer reads the rows. Otherwise the trainer fails with an obscure error, or trains
on the wrong tokens.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.turn_fields import check_row_turns
from posttrain.runtime.turn_order import ROLES
from posttrain.spec.column_types import Columns, Type, is_assignable
from posttrain.spec.extension import Method
from posttrain.spec.messages import turn_words

Row = Mapping[str, Any]
Turns = Sequence[Mapping[str, Any]]
# Columns with text that the model learns to generate, or to avoid.
_TARGET_COLUMNS = ("messages", "completion", "chosen", "rejected")
# The columns that methods read, in addition to those that a reward reads.
METHOD_COLUMNS = ("prompt", *_TARGET_COLUMNS, "text", "label")


def match_columns(rows: Sequence[Row], method: Method) -> Columns:
    """Return the first of the method's column sets that matches the columns and types of the rows."""
    forms = {name: _column_type(row[name] for row in rows) for name in rows[0]}
    for accepted in method.accepts:
        if all(name in forms and is_assignable(type, forms[name]) for name, type in accepted.items()):
            return _add_text_prompt(accepted, forms, rows)
    readable = " or ".join(_format_columns(accepted) for accepted in method.accepts)
    raise StepError(
        f"`{method.name}` reads {readable}; the rows have {_format_columns(forms)}",
        "rename or derive columns in the dataset's steps, or declare their types in its source",
    )


def validate_rows(rows: Sequence[Row], columns: Columns, method: Method, *, template: bool) -> None:
    """Raise StepError for rows that the method cannot train on; `template`: the model has a chat template."""
    for name in columns:
        _raise_for_rows(
            rows,
            (row[name] is None for row in rows),
            f"a null in the column `{name}`",
            _drop_nulls_advice(name),
        )
    talks = [name for name, type in columns.items() if type == "messages"]
    if talks and not template:
        raise StepError(
            f"the column `{talks[0]}` contains conversations, but the model has no chat template",
            "set `chat_template` (such as chatml) or `tags` of the model, or train on text columns",
        )
    for name in talks:
        _check_turns(rows, name)
        _check_weights(rows, name, method)
    if "prompt" not in columns and "chosen" in columns and method.product == "policy":
        differ = (row["chosen"][0] != row["rejected"][0] for row in rows)
        advice = "the shared first turns are the prompt: start both with the user's turn"
        _raise_for_rows(rows, differ, "no prompt: `chosen` and `rejected` start with different turns", advice)
    for name in columns:
        if name in _TARGET_COLUMNS and name != "rejected" and all(_is_blank(row[name]) for row in rows):
            message = f"`{name}` is empty in all {len(rows)} rows: there is nothing to train on"
            raise StepError(message, "check the dataset's source and the steps that fill this column")
    if "chosen" in columns and all(row["chosen"] == row["rejected"] for row in rows):
        message = f"`chosen` and `rejected` are equal in all {len(rows)} rows: there is nothing to train on"
        raise StepError(message, "check the dataset's source and the steps that fill these columns")


def row_warnings(columns: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, str]]:
    """Yield warnings about valid but suspicious rows, each as a message and advice."""
    rows = len(next(iter(columns.values())))
    for name in ("prompt", *_TARGET_COLUMNS):
        blank = sum(_is_blank(value) for value in columns.get(name, ()))
        if blank and name != "messages":
            effect = "" if name in ("prompt", "rejected") else ": the model learns to generate nothing"
            advice = "if this is not intended, filter them out with the data step `where`"
            yield f"{blank} of {rows} rows have an empty `{name}`{effect}", advice
        yield from _role_warnings(name, columns.get(name, ()))
    if "chosen" in columns:
        pairs = zip(columns["chosen"], columns["rejected"], strict=True)
        same = sum(chosen == rejected for chosen, rejected in pairs)
        if same:
            message = f"`chosen` and `rejected` are equal in {same} of {rows} rows"
            yield message, "filter them out with the data step `where: chosen <> rejected`"
    if "label" in columns and len(set(columns["label"])) == 1:
        message = f"`label` is {str(columns['label'][0]).lower()} in all {rows} rows: there is no contrast"
        yield message, "add rows with the other label, or train with sft on the desirable ones"
    yield from _repeated_prompt_warnings(columns)


def _role_warnings(name: str, column: Sequence[Any]) -> Iterator[tuple[str, str]]:
    talks = [value for value in column if isinstance(value, list)]
    roles = sorted({turn["role"] for turns in talks for turn in turns} - set(ROLES))
    if roles:
        message = f"`{name}` has the roles {_format_names(roles)}, which are not those of chat models"
        yield message, "rename the roles to system, user and assistant with the data step `conversations`"
    unanswered = sum(turns[-1]["role"] != "assistant" for turns in talks if turns)
    if name == "messages" and unanswered:
        count = f"{unanswered} of {len(talks)}"
        message = f"{count} conversations do not end with an assistant turn"
        yield message, "the loss ignores that last turn: remove it, or add the missing answer"


def _repeated_prompt_warnings(columns: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, str]]:
    """Warn about completions that repeat the prompt, as in datasets for plain language modeling."""
    prompts = columns.get("prompt", ())
    for name in ("completion", "chosen"):
        pairs = [
            (_joined_text(p), _joined_text(c)) for p, c in zip(prompts, columns.get(name, ()), strict=False)
        ]
        if len(pairs) > 1 and all(prompt and words.startswith(prompt) for prompt, words in pairs):
            message = f"every `{name}` starts with its prompt, so the model reads the prompt twice"
            yield message, f"for text, remove it: `derive: {{{name}: substr({name}, length(prompt) + 1)}}`"


def _add_text_prompt(accepted: Columns, forms: Columns, rows: Sequence[Row]) -> Columns:
    """Add a text prompt in its own column to pairs of conversations that do not start with the prompt."""
    apart = "prompt" not in accepted and "chosen" in accepted and forms.get("prompt") == "text"
    if apart and not any(_first_turn(row["chosen"]) == _first_turn(row["rejected"]) for row in rows):
        return {"prompt": "text", **accepted}
    return accepted


def _first_turn(turns: Any) -> Any:
    return turns[0] if turns else None


def _check_turns(rows: Sequence[Row], name: str) -> None:
    advice = "filter them out in the dataset's steps, or fix the source"
    _raise_for_rows(rows, (not row[name] for row in rows), f"no turns in `{name}`", advice)
    wordless = (any(not _has_words(turn) for turn in row[name]) for row in rows)
    _raise_for_rows(
        rows, wordless, f"a turn without text in `{name}`", "set `role` and `content` in every turn"
    )
    check_row_turns(rows, name)
    if name not in _TARGET_COLUMNS:
        return
    roles = {turn["role"] for row in rows for turn in row[name]}
    if not roles <= set(ROLES):
        advice = (
            f"the roles are {_format_names(sorted(roles))}: rename them with the data step `conversations`"
        )
    if name == "messages":
        none = (all(turn["role"] != "assistant" for turn in row[name]) for row in rows)
        _raise_for_rows(rows, none, f"no assistant turn in `{name}`", advice)
    else:
        other = (row[name][-1]["role"] != "assistant" for row in rows)
        _raise_for_rows(rows, other, f"a `{name}` that does not end with an assistant turn", advice)


def _has_words(turn: Mapping[str, Any]) -> bool:
    return isinstance(turn.get("content"), str) or bool(turn.get("tool_calls"))


def _check_weights(rows: Sequence[Row], name: str, method: Method) -> None:
    """Refuse weights of turns that the loss of the method would ignore."""
    if name in _TARGET_COLUMNS and not method.turn_weights:
        weighted = (any("weight" in turn for turn in row[name]) for row in rows)
        advice = "remove `train` and `weight` from the turns, or train with sft"
        what = f"a turn with `train` or `weight` in `{name}`, which the loss of {method.name} ignores"
        _raise_for_rows(rows, weighted, what, advice)


def _raise_for_rows(rows: Sequence[Row], bad: Iterator[bool], what: str, advice: str) -> None:
    """Raise StepError if any row is bad, with the number of bad rows and the first of them."""
    numbers = [number for number, is_bad in enumerate(bad, 1) if is_bad]
    if numbers:
        message = f"{len(numbers)} of {len(rows)} rows have {what}; the first is row {numbers[0]}"
        raise StepError(message, advice)


def _drop_nulls_advice(name: str) -> str:
    return f"filter them out with the data step `where: {name} IS NOT NULL`"


def _joined_text(value: Any) -> str:
    return value if isinstance(value, str) else "".join(map(turn_words, value))


def _is_blank(value: Any) -> bool:
    """Whether a value has no text to train on: blank text, or only blank assistant turns."""
    if isinstance(value, str):
        return not value.strip()
    own = [turn for turn in value if turn["role"] == "assistant"] or value
    return not any(turn_words(turn).strip() for turn in own)


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
