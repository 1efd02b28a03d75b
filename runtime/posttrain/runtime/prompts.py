"""The prompts that a stage asks with: the rows' own, in a template, after worked examples."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.runtime.engines.completion_decoding import render_prompt
from posttrain.runtime.engines.completion_log import Prompt
from posttrain.runtime.errors import StepError
from posttrain.runtime.rows_io import read_rows
from posttrain.runtime.step_context import StepContext

_PLACEHOLDER = "{prompt}"  # nothing else is filled in: a template may hold braces of its own
Row = Mapping[str, Any]


def render_prompts(context: StepContext, tokenizer: Any, rows: Sequence[Row]) -> list[str]:
    """Each row's prompt as the text that a model reads."""
    return [render_prompt(prompt, tokenizer) for prompt in build_prompts(context, tokenizer, rows)]


def uses_chat_template(context: StepContext, writer: Any) -> bool:
    """Whether text prompts go through the chat template."""
    prompt_format = context.params["prompts"]
    has_template = writer.chat_template is not None
    if prompt_format == "chat" and not has_template:
        raise StepError(
            "`prompts: chat` is asked for, and the model has no chat template",
            "give the model a chat_template, or write `prompts: plain`",
        )
    return prompt_format == "chat" or (prompt_format == "auto" and has_template)


def build_prompts(context: StepContext, writer: Any, rows: Sequence[Row]) -> list[Prompt]:
    """Each row's prompt: turns where the stage goes through the chat template, else text.

    `writer` has a `chat_template`, which is None when it takes text alone.
    """
    chat = uses_chat_template(context, writer)
    template = _read_template(context.files.get("template"))
    shots = _few_shot_examples(context, rows)
    return [
        _build_prompt(row["prompt"], template, [], {}, chat)
        if shots is None
        else _build_prompt(row["prompt"], template, shots[place], context.params["few_shot"], chat)
        for place, row in enumerate(rows)
    ]


def _read_template(file: Path | None) -> str:
    return _PLACEHOLDER if file is None else file.read_text(encoding="utf-8")


def _build_prompt(
    prompt_value: Any,
    template: str,
    shots: Sequence[tuple[str, str]],
    few_shot_options: Mapping[str, Any],
    chat: bool,
) -> Prompt:
    if prompt_value is None:
        message = "a row has no prompt"
        raise StepError(message, "drop such rows with the data step `where: prompt IS NOT NULL`")
    if not isinstance(prompt_value, str):
        return [{"role": turn["role"], "content": turn["content"]} for turn in prompt_value]
    question = template.replace(_PLACEHOLDER, prompt_value)
    before = [(template.replace(_PLACEHOLDER, prompt), answer) for prompt, answer in shots]
    if chat:
        turns = [
            {"role": role, "content": text}
            for shot in before
            for role, text in zip(("user", "assistant"), shot, strict=True)
        ]
        return [*turns, {"role": "user", "content": question}]
    return (
        "".join(
            f"{prompt}{few_shot_options['target_delimiter']}{answer}{few_shot_options['fewshot_delimiter']}"
            for prompt, answer in before
        )
        + question
    )


def _few_shot_examples(context: StepContext, rows: Sequence[Row]) -> list[list[tuple[str, str]]] | None:
    """The worked examples before each row: the first in one drawn order that are not the row itself."""
    few_shot = context.params.get("few_shot")
    if few_shot is None:
        return None
    found = [
        (row["prompt"], str(row[few_shot["answer"]]))
        for row in read_rows(context.inputs["few_shot"], context.part("few_shot"))
        if row["prompt"] is not None and row[few_shot["answer"]] is not None
    ]
    found = list(dict.fromkeys(found))
    random.Random(few_shot["seed"]).shuffle(found)
    return [_pick_examples(found, row["prompt"], few_shot["num_fewshot"]) for row in rows]


def _pick_examples(shots: Sequence[tuple[str, str]], prompt: Any, count: int) -> list[tuple[str, str]]:
    chosen: list[tuple[str, str]] = []
    for shot in shots:
        if len(chosen) == count:
            break
        if shot[0] != prompt:
            chosen.append(shot)
    if len(chosen) < count:
        message = (
            f"`few_shot` needs {count} examples before each prompt, and {len(chosen)} rows differ from it"
        )
        raise StepError(message, "lower few_shot.num_fewshot, or take the examples from more rows")
    return chosen
