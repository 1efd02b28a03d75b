"""Generates conversations between two models, turn by turn, in parallel.

The stage's model generates the assistant's turns. The other model generates the user's turns; it sees the
conversation with swapped roles.
"""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from posttrain.runtime.engines.completion_log import Completion
from posttrain.runtime.engines.endpoint_client import REFUSED
from posttrain.runtime.engines.engine_factory import generate_completions, open_engine
from posttrain.runtime.engines.engine_protocol import TextGenerator
from posttrain.runtime.errors import StepError
from posttrain.runtime.evaluation.sample_completions.missing_completions import check_missing
from posttrain.runtime.step_context import StepContext
from posttrain.spec.step_params.artifact_params import DialogueOptions, GenerateStepParams
from posttrain.spec.step_params.generation_params import ModelTarget

Row = dict[str, Any]
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
# The finish reasons of failed requests. These conversations are dropped.
_FAILED_FINISHES = ("error", "timeout", REFUSED)
_SWAPPED_ROLES = {"user": "assistant", "assistant": "user"}


@dataclass
class Conversation:
    """The state of one conversation."""

    row: Row
    system: str
    user_system: str
    turns: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    # Why it ended; None while it is active.
    finish: str | None = None

    def messages(self) -> list[dict[str, str]]:
        """The conversation as the assistant model sees it, and as it is stored."""
        return [*_system_message(self.system), *self.turns]

    def swapped_messages(self, begin: str) -> list[dict[str, str]]:
        """The conversation as the user model sees it."""
        turns = [{**turn, "role": _SWAPPED_ROLES[turn["role"]]} for turn in self.turns]
        return [*_system_message(self.user_system), {"role": "user", "content": begin}, *turns]

    @property
    def replies(self) -> int:
        return sum(turn["role"] == "assistant" for turn in self.turns)


def run_conversations(context: StepContext[GenerateStepParams], rows: Sequence[Row]) -> list[Row]:
    """Generate a conversation for each row and sample. Failed and empty ones are dropped."""
    dialogue, samples = _dialogue(context), context.params.sampling.n
    conversations = [_start_conversation(row, dialogue) for row in rows for _ in range(samples)]
    with ExitStack() as stack:
        generators = [
            stack.enter_context(open_engine(context, model_spec)) for model_spec in context.params.models
        ]
        for generator, model_spec in zip(generators, context.params.models, strict=True):
            _check_template(generator, model_spec)
        context.events.emit("phase", name="generating conversations")
        for number in range(1, dialogue.max_turns + 1):
            _generate_assistant_turns(context, generators[0], conversations, number)
            if number < dialogue.max_turns:
                _generate_user_turns(context, generators[1], conversations, number)
    for conversation in conversations:
        conversation.finish = conversation.finish or "turns"
    check_missing(
        context,
        [
            conversation.finish or ""
            for conversation in conversations
            if conversation.finish in _FAILED_FINISHES
        ],
        len(conversations),
    )
    _warn_of_early_ends(context, conversations)
    return [
        {
            **conversation.row,
            "messages": conversation.messages(),
            "turns": len(conversation.turns),
            "finish": conversation.finish,
        }
        for conversation in conversations
        if conversation.replies and conversation.finish not in _FAILED_FINISHES
    ]


def _dialogue(context: StepContext[GenerateStepParams]) -> DialogueOptions:
    assert context.params.dialogue is not None, "the step has no dialogue"
    return context.params.dialogue


def _start_conversation(row: Row, dialogue: DialogueOptions) -> Conversation:
    conversation = Conversation(
        row, _fill_template(dialogue.system, row), _fill_template(dialogue.with_system, row)
    )
    _append_turn(
        conversation,
        "user",
        Completion(_fill_template(dialogue.opening, row), None, "stop"),
        dialogue.stop,
    )
    return conversation


def _fill_template(text: str, row: Row) -> str:
    return _PLACEHOLDER.sub(lambda match: str(row[match[1]]), text)


def _system_message(system: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": system}] if system else []


def _check_template(generator: TextGenerator, model_spec: ModelTarget) -> None:
    if generator.chat_template is None:
        message = f"a dialogue requires a chat template, and {model_spec.name} has none"
        raise StepError(message, "set `chat_template` of the model, such as chatml")


def _generate_assistant_turns(
    context: StepContext[GenerateStepParams],
    generator: TextGenerator,
    conversations: Sequence[Conversation],
    number: int,
) -> None:
    """Generate the assistant's next turn in every active conversation."""
    live = [conversation for conversation in conversations if conversation.finish is None]
    sampling = context.params.sampling.model_copy(update={"n": 1})
    model_spec = context.params.models[0]
    prompts = [conversation.messages() for conversation in live]
    turns = generate_completions(
        context, model_spec, generator, prompts, sampling, seed=context.params.seed, name=f"-{number:03}"
    )
    for conversation, (completion,) in zip(live, turns, strict=True):
        _append_turn(conversation, "assistant", completion, _dialogue(context).stop)


def _generate_user_turns(
    context: StepContext[GenerateStepParams],
    generator: TextGenerator,
    conversations: Sequence[Conversation],
    number: int,
) -> None:
    """Generate the user's next turn in every active conversation."""
    dialogue = _dialogue(context)
    live = [conversation for conversation in conversations if conversation.finish is None]
    sampling = dialogue.sampling.model_copy(update={"n": 1})
    model_spec = context.params.models[1]
    prompts = [conversation.swapped_messages(dialogue.begin) for conversation in live]
    # A different seed: if both sides are the same model, they would sample alike.
    seed = context.params.seed + 1 if sampling.seed is None else sampling.seed
    turns = generate_completions(
        context, model_spec, generator, prompts, sampling, seed=seed, name=f"-{number:03}"
    )
    for conversation, (completion,) in zip(live, turns, strict=True):
        _append_turn(conversation, "user", completion, dialogue.stop)


def _append_turn(conversation: Conversation, role: str, completion: Completion, stop: Sequence[str]) -> None:
    """Append a turn, and end the conversation if it is the last one."""
    text = completion.text
    if not text:
        conversation.finish = "empty" if text == "" else completion.finish
        return
    conversation.turns.append({"role": role, "content": text})
    if any(word in text for word in stop):
        conversation.finish = "stop"
    elif completion.finish != "stop":
        conversation.finish = completion.finish


def _warn_of_early_ends(context: StepContext, conversations: Sequence[Conversation]) -> None:
    ends: dict[str, int] = {}
    for conversation in conversations:
        ends[conversation.finish or ""] = ends.get(conversation.finish or "", 0) + 1
    context.facts["ends"] = ends
    bad = len(conversations) - ends.get("stop", 0) - ends.get("turns", 0)
    if bad:
        summary = ", ".join(f"{name}: {count}" for name, count in sorted(ends.items()))
        context.events.emit(
            "warning",
            message=f"{bad} of {len(conversations)} conversations ended early ({summary})",
            advice="see the column `finish`; raise max_tokens if turns were truncated",
        )
