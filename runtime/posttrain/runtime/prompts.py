"""The prompts that a stage asks with: the rows' own, in a template, after worked examples."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.engines.kept import Prompt
from posttrain.runtime.engines.texts import as_text
from posttrain.runtime.faults import StepFault
from posttrain.runtime.products import read_rows

_PLACE = "{prompt}"  # nothing else is filled in: a template may hold braces of its own
Row = Mapping[str, Any]


def rendered(context: Context, tokenizer: Any, rows: Sequence[Row]) -> list[str]:
    """Each row's prompt as the text that a model reads."""
    return [as_text(prompt, tokenizer) for prompt in prompts_of(context, tokenizer, rows)]


def conversational(context: Context, writer: Any) -> bool:
    """Whether text prompts go through the chat template."""
    wanted = context.params["prompts"]
    has_template = writer.chat_template is not None
    if wanted == "chat" and not has_template:
        raise StepFault(
            "`prompts: chat` is asked for, and the model has no chat template",
            "give the model a chat_template, or write `prompts: plain`",
        )
    return wanted == "chat" or (wanted == "auto" and has_template)


def prompts_of(context: Context, writer: Any, rows: Sequence[Row]) -> list[Prompt]:
    """Each row's prompt: turns where the stage goes through the chat template, else text.

    `writer` has a `chat_template`, which is None when it takes text alone.
    """
    chat = conversational(context, writer)
    template = _template(context.files.get("template"))
    shots = _shots(context, rows)
    return [
        _prompt(row["prompt"], template, [], {}, chat)
        if shots is None
        else _prompt(row["prompt"], template, shots[place], context.params["shots"], chat)
        for place, row in enumerate(rows)
    ]


def _template(file: Path | None) -> str:
    return _PLACE if file is None else file.read_text(encoding="utf-8")


def _prompt(
    given: Any, template: str, shots: Sequence[tuple[str, str]], how: Mapping[str, Any], chat: bool
) -> Prompt:
    if given is None:
        message = "a row has no prompt"
        raise StepFault(message, "drop such rows with the data step `where: prompt IS NOT NULL`")
    if not isinstance(given, str):
        return [{"role": turn["role"], "content": turn["content"]} for turn in given]
    asked = template.replace(_PLACE, given)
    before = [(template.replace(_PLACE, prompt), answer) for prompt, answer in shots]
    if chat:
        turns = [
            {"role": role, "content": text}
            for shot in before
            for role, text in zip(("user", "assistant"), shot, strict=True)
        ]
        return [*turns, {"role": "user", "content": asked}]
    return "".join(f"{prompt}{how['joint']}{answer}{how['between']}" for prompt, answer in before) + asked


def _shots(context: Context, rows: Sequence[Row]) -> list[list[tuple[str, str]]] | None:
    """The worked examples before each row: the first in one drawn order that are not the row itself."""
    wanted = context.params.get("shots")
    if wanted is None:
        return None
    found = [
        (row["prompt"], str(row[wanted["answer"]]))
        for row in read_rows(context.inputs["shots"], context.part("shots"))
        if row["prompt"] is not None and row[wanted["answer"]] is not None
    ]
    found = list(dict.fromkeys(found))
    random.Random(wanted["seed"]).shuffle(found)
    return [_others(found, row["prompt"], wanted["count"]) for row in rows]


def _others(shots: Sequence[tuple[str, str]], prompt: Any, count: int) -> list[tuple[str, str]]:
    chosen: list[tuple[str, str]] = []
    for shot in shots:
        if len(chosen) == count:
            break
        if shot[0] != prompt:
            chosen.append(shot)
    if len(chosen) < count:
        message = (
            f"{count} shots are wanted before a prompt, and {len(chosen)} rows are not the prompt itself"
        )
        raise StepFault(message, "lower shots.count, or take the shots from more rows")
    return chosen
