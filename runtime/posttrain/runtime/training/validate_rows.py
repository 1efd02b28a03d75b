"""What the rows hold that a method is given: columns in a form that it reads, turns of the assistant's,
something to tell apart.

It is looked at before a trainer sees the rows, which would fail deep inside, or learn something else.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.spec.column_types import Columns, Type, is_assignable
from posttrain.spec.extension import Method

Row = Mapping[str, Any]
Turns = Sequence[Mapping[str, Any]]
# What the model is to write, or not to write.
_TARGET_COLUMNS = ("messages", "completion", "chosen", "rejected")
# The columns that methods read, beside what a reward reads.
METHOD_COLUMNS = ("prompt", *_TARGET_COLUMNS, "text", "label")
_ROLES = {"system", "developer", "user", "assistant", "tool"}


def match_columns(rows: Sequence[Row], method: Method) -> Columns:
    """The first of a method's column sets that the rows have, in forms that it reads."""
    forms = {name: _column_type(row[name] for row in rows) for name in rows[0]}
    for wanted in method.accepts:
        if all(name in forms and is_assignable(type, forms[name]) for name, type in wanted.items()):
            return _add_text_prompt(wanted, forms, rows)
    readable = " or ".join(_format_columns(wanted) for wanted in method.accepts)
    raise StepError(
        f"`{method.name}` reads {readable}; the rows have {_format_columns(forms)}",
        "rename or derive columns in the dataset's steps, or declare their types in its source",
    )


def validate_rows(rows: Sequence[Row], columns: Columns, method: Method, *, template: bool) -> None:
    """Refuse rows that the method cannot learn from; `template` is whether the model takes conversations."""
    for name in columns:
        _raise_for_rows(
            rows,
            (row[name] is None for row in rows),
            f"nothing in the column `{name}`",
            _drop_nulls_advice(name),
        )
    talks = [name for name, type in columns.items() if type == "messages"]
    if talks and not template:
        raise StepError(
            f"the column `{talks[0]}` holds conversations, and the model has no chat template",
            "give the model a `chat_template` or `tags` where it is declared, or train on columns of text",
        )
    for name in talks:
        _check_turns(rows, name)
    if "prompt" not in columns and "chosen" in columns and method.product == "policy":
        differ = (row["chosen"][0] != row["rejected"][0] for row in rows)
        advice = "what both begin with is taken for the prompt: have both begin with the user's turn"
        _raise_for_rows(rows, differ, "no prompt: their `chosen` and `rejected` begin differently", advice)
    for name in columns:
        if name in _TARGET_COLUMNS and name != "rejected" and all(_is_blank(row[name]) for row in rows):
            message = f"`{name}` is empty in all {len(rows)} rows: there is nothing to learn"
            raise StepError(message, "look at the dataset's source and steps: what fills this column?")
    if "chosen" in columns and all(row["chosen"] == row["rejected"] for row in rows):
        message = f"`chosen` and `rejected` are the same in all {len(rows)} rows: there is nothing to learn"
        raise StepError(message, "look at the dataset's source and steps: what fills these columns?")


def row_warnings(columns: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, str]]:
    """What is striking about rows that can be learnt from: each with what to do about it."""
    rows = len(next(iter(columns.values())))
    for name in ("prompt", *_TARGET_COLUMNS):
        blank = sum(_is_blank(value) for value in columns.get(name, ()))
        if blank and name != "messages":
            learnt = "" if name in ("prompt", "rejected") else ": the model learns to say nothing"
            advice = "drop them with the data step `where`, if that is not meant"
            yield f"{blank} of {rows} rows have an empty `{name}`{learnt}", advice
        yield from _role_warnings(name, columns.get(name, ()))
    if "chosen" in columns:
        pairs = zip(columns["chosen"], columns["rejected"], strict=True)
        same = sum(chosen == rejected for chosen, rejected in pairs)
        if same:
            message = f"in {same} of {rows} rows `chosen` and `rejected` are the same"
            yield message, "drop them with the data step `where: chosen <> rejected`"
    if "label" in columns and len(set(columns["label"])) == 1:
        message = f"`label` is {str(columns['label'][0]).lower()} in all {rows} rows: nothing is told apart"
        yield message, "give rows of both kinds, or train with sft on those that are wanted"
    yield from _repeated_prompt_warnings(columns)


def _role_warnings(name: str, column: Sequence[Any]) -> Iterator[tuple[str, str]]:
    talks = [value for value in column if isinstance(value, list)]
    roles = sorted({turn["role"] for turns in talks for turn in turns} - _ROLES)
    if roles:
        message = (
            f"`{name}` has turns of {_format_names(roles)}, which chat templates may leave out or refuse"
        )
        yield message, "name roles system, user and assistant: the data step `conversations` renames them"
    unanswered = sum(turns[-1]["role"] != "assistant" for turns in talks if turns)
    if name == "messages" and unanswered:
        count = f"{unanswered} of {len(talks)}"
        message = f"{count} conversations end with a turn that the assistant does not answer"
        yield message, "that turn is only read: cut it off, if the answer is not missing"


def _repeated_prompt_warnings(columns: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, str]]:
    """Completions that hold the prompt once more, as data for plain language models do."""
    prompts = columns.get("prompt", ())
    for name in ("completion", "chosen"):
        pairs = [
            (_joined_text(p), _joined_text(c)) for p, c in zip(prompts, columns.get(name, ()), strict=False)
        ]
        if len(pairs) > 1 and all(prompt and words.startswith(prompt) for prompt, words in pairs):
            message = f"every `{name}` begins with its prompt, which is read before it anyway"
            yield message, f"cut it off: `derive: {{{name}: substr({name}, length(prompt) + 1)}}` for text"


def _add_text_prompt(wanted: Columns, forms: Columns, rows: Sequence[Row]) -> Columns:
    """Pairs of conversations may lack the prompt, and have it as text beside them."""
    apart = "prompt" not in wanted and "chosen" in wanted and forms.get("prompt") == "text"
    if apart and not any(_first_turn(row["chosen"]) == _first_turn(row["rejected"]) for row in rows):
        return {"prompt": "text", **wanted}
    return wanted


def _first_turn(turns: Any) -> Any:
    return turns[0] if turns else None


def _check_turns(rows: Sequence[Row], name: str) -> None:
    advice = "drop them in the dataset's steps, or mend the source"
    _raise_for_rows(rows, (not row[name] for row in rows), f"no turn in `{name}`", advice)
    wordless = (any(not isinstance(turn.get("content"), str) for turn in row[name]) for row in rows)
    _raise_for_rows(
        rows, wordless, f"a turn without text in `{name}`", "give every turn a `role` and a `content`"
    )
    if name not in _TARGET_COLUMNS:
        return
    roles = {turn["role"] for row in rows for turn in row[name]}
    if not roles <= _ROLES:
        advice = (
            f"the roles here are {_format_names(sorted(roles))}: the data step `conversations` renames them"
        )
    if name == "messages":
        none = (all(turn["role"] != "assistant" for turn in row[name]) for row in rows)
        _raise_for_rows(rows, none, f"no turn of the assistant's in `{name}`", advice)
    else:
        other = (row[name][-1]["role"] != "assistant" for row in rows)
        _raise_for_rows(rows, other, f"a `{name}` that does not end with the assistant's turn", advice)


def _raise_for_rows(rows: Sequence[Row], bad: Iterator[bool], what: str, advice: str) -> None:
    """A fault for the rows of which something bad is true; the first is named."""
    found = [number for number, one in enumerate(bad, 1) if one]
    if found:
        raise StepError(f"{len(found)} of {len(rows)} rows have {what}; the first is row {found[0]}", advice)


def _drop_nulls_advice(name: str) -> str:
    return f"drop them with the data step `where: {name} IS NOT NULL`"


def _joined_text(value: Any) -> str:
    return value if isinstance(value, str) else "".join(turn["content"] for turn in value)


def _is_blank(value: Any) -> bool:
    """Whether there is nothing to write: no text, or turns of the assistant's without any."""
    if isinstance(value, str):
        return not value.strip()
    own = [turn for turn in value if turn["role"] == "assistant"] or value
    return not any(turn["content"].strip() for turn in own)


def _column_type(values: Iterator[Any]) -> Type:
    """The form of a column, by its first value that there is; of an empty list nothing is known."""
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
            case [{"role": _, "content": _}, *_]:
                return "messages"
            case _:
                return "list<any>"
    return form


def _format_columns(columns: Columns) -> str:
    return ", ".join(f"{name} ({type})" for name, type in columns.items())


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:5])
