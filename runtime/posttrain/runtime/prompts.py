"""Builds the prompts of a stage: the prompt of each row, in a template, after few-shot examples."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.runtime.chat_prompts import (
    Prompt,
    as_chat,
    chat_prompt,
    has_template_values,
    read_template_columns,
)
from posttrain.runtime.engines.engine_protocol import ENDPOINT_TEMPLATE
from posttrain.runtime.errors import StepError
from posttrain.runtime.models.template_probe import check_rendered_parts
from posttrain.runtime.rows_io import read_rows
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.turn_fields import check_row_turns
from posttrain.runtime.turn_order import check_turn_order
from posttrain.spec.messages import template_messages
from posttrain.spec.step_params.generation_params import FewShotOptions, GenerationParams
from posttrain.spec.step_params.train_params import TrainStepParams

# Parameters with a prompt format.
PromptingParams = GenerationParams | TrainStepParams

_PLACEHOLDER = "{prompt}"  # the only placeholder: a template can contain other braces
Row = Mapping[str, Any]


def uses_chat_template(context: StepContext[PromptingParams], generator: Any) -> bool:
    """Whether text prompts are rendered with the chat template."""
    prompt_format = context.params.prompts
    has_template = generator.chat_template is not None
    if prompt_format == "chat" and not has_template:
        raise StepError(
            "`prompts: chat` requires a chat template, and the model has none",
            "set `chat_template` of the model (such as chatml), or set `prompts: plain`",
        )
    return prompt_format == "chat" or (prompt_format == "auto" and has_template)


def build_prompts(context: StepContext[PromptingParams], generator: Any, rows: Sequence[Row]) -> list[Prompt]:
    """The prompt of each row: messages when the stage uses the chat template, otherwise text.

    `generator` has a `chat_template`, which is None when it accepts text only.
    """
    chat = uses_chat_template(context, generator)
    template = _read_template(context.files.get("template"))
    few_shot = context.params.few_shot if isinstance(context.params, GenerationParams) else None
    check_row_turns(rows, "prompt")
    shots = _few_shot_examples(context, few_shot, rows) if few_shot else None
    read = read_template_columns(rows, context.params.chat_template_kwargs)
    prompts = [
        _build_prompt(row["prompt"], template, shots[place] if shots else [], few_shot, chat)
        for place, row in enumerate(rows)
    ]
    check_rendered(prompts, read)
    built = [
        prompt if isinstance(prompt, str) else chat_prompt(prompt, row)
        for prompt, row in zip(prompts, read, strict=True)
    ]
    talks = [(number, as_chat(one)) for number, one in enumerate(built, 1) if not isinstance(one, str)]
    check_turn_order((number, talk.messages) for number, talk in talks)
    if talks and generator.chat_template != ENDPOINT_TEMPLATE:
        check_rendered_parts(talks, generator.chat_template, learned=False)
    return built


def check_rendered(prompts: Sequence[Any], rows: Sequence[Row], first: int = 1) -> None:
    """Raise StepError for the first row of plain text with tools or arguments of the chat template.

    `first` is the number of the first row.
    """
    for number, (prompt, row) in enumerate(zip(prompts, rows, strict=True), first):
        if isinstance(prompt, str) and has_template_values([row]):
            raise StepError(
                f"row {number} has `tools` or `chat_template_kwargs`, but its prompt is plain text, which no"
                " chat template renders",
                "set `prompts: chat`, use a model with a chat template, or remove the columns",
            )


def _read_template(file: Path | None) -> str:
    return _PLACEHOLDER if file is None else file.read_text(encoding="utf-8")


def _build_prompt(
    prompt_value: Any,
    template: str,
    shots: Sequence[tuple[str, str]],
    few_shot: FewShotOptions | None,
    chat: bool,
) -> str | list[dict[str, Any]]:
    if prompt_value is None:
        message = "a row has no prompt"
        raise StepError(message, "drop such rows with the data op `where: prompt IS NOT NULL`")
    if not isinstance(prompt_value, str):
        return template_messages(prompt_value)
    question = template.replace(_PLACEHOLDER, prompt_value)
    before = [(template.replace(_PLACEHOLDER, prompt), answer) for prompt, answer in shots]
    if chat:
        turns = [
            {"role": role, "content": text}
            for shot in before
            for role, text in zip(("user", "assistant"), shot, strict=True)
        ]
        return [*turns, {"role": "user", "content": question}]
    if few_shot is None:
        return question
    delimiter, end = few_shot.target_delimiter, few_shot.fewshot_delimiter
    return "".join(f"{prompt}{delimiter}{answer}{end}" for prompt, answer in before) + question


def _few_shot_examples(
    context: StepContext, few_shot: FewShotOptions, rows: Sequence[Row]
) -> list[list[tuple[str, str]]]:
    """The few-shot examples of each row: the first of one random order, without the row itself."""
    examples = [
        (row["prompt"], str(row[few_shot.answer]))
        for row in read_rows(context.inputs["few_shot"], context.part("few_shot"))
        if row["prompt"] is not None and row[few_shot.answer] is not None
    ]
    examples = list(dict.fromkeys(examples))
    random.Random(few_shot.seed).shuffle(examples)
    return [_pick_examples(examples, row["prompt"], few_shot.num_fewshot) for row in rows]


def _pick_examples(shots: Sequence[tuple[str, str]], prompt: Any, count: int) -> list[tuple[str, str]]:
    chosen: list[tuple[str, str]] = []
    for shot in shots:
        if len(chosen) == count:
            break
        if shot[0] != prompt:
            chosen.append(shot)
    if len(chosen) < count:
        message = (
            f"`few_shot` needs {count} examples before each prompt, but only {len(chosen)} rows differ from"
            " the prompt"
        )
        raise StepError(message, "lower few_shot.num_fewshot, or use a larger dataset for the examples")
    return chosen
