"""Conversations of two models: turn by turn, all of them side by side.

The model that `generate` names writes the assistant's turns. The other side opens and writes the
user's; it sees the same conversation with the roles exchanged.
"""

import re
from collections.abc import Mapping, Sequence
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

Row = dict[str, Any]
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
# How conversations end that an endpoint did not go on with: they are left out.
_FAILED_FINISHES = ("error", "timeout", REFUSED)
_SWAPPED_ROLES = {"user": "assistant", "assistant": "user"}


@dataclass
class Conversation:
    """One conversation, as far as it is."""

    row: Row
    system: str
    user_system: str
    turns: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    # Why it ended; None while it goes on.
    finish: str | None = None

    def messages(self) -> list[dict[str, str]]:
        """The conversation as the model sees it, and as it is kept."""
        return [*_system_message(self.system), *self.turns]

    def swapped_messages(self, begin: str) -> list[dict[str, str]]:
        """The conversation as the other side sees it."""
        turns = [{**turn, "role": _SWAPPED_ROLES[turn["role"]]} for turn in self.turns]
        return [*_system_message(self.user_system), {"role": "user", "content": begin}, *turns]

    @property
    def replies(self) -> int:
        return sum(turn["role"] == "assistant" for turn in self.turns)


def run_conversations(context: StepContext, rows: Sequence[Row]) -> list[Row]:
    """A row for each conversation, with its messages. Those in which nobody replied are left out."""
    dialogue, samples = context.params["dialogue"], context.params["sampling"]["n"]
    conversations = [_start_conversation(row, dialogue) for row in rows for _ in range(samples)]
    with ExitStack() as stack:
        writers = [stack.enter_context(open_engine(context, one)) for one in context.params["models"]]
        for writer, subject in zip(writers, context.params["models"], strict=True):
            _check_template(writer, subject)
        context.events.emit("phase", name="conversing")
        for number in range(1, dialogue["max_turns"] + 1):
            _generate_assistant_turns(context, writers[0], conversations, number)
            if number < dialogue["max_turns"]:
                _generate_user_turns(context, writers[1], conversations, number)
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
    _warn_of_broken_off(context, conversations)
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


def _start_conversation(row: Row, dialogue: Mapping[str, Any]) -> Conversation:
    conversation = Conversation(
        row, _fill_template(dialogue["system"], row), _fill_template(dialogue["with_system"], row)
    )
    _append_turn(
        conversation,
        "user",
        Completion(_fill_template(dialogue["opening"], row), None, "stop"),
        dialogue["stop"],
    )
    return conversation


def _fill_template(text: str, row: Row) -> str:
    return _PLACEHOLDER.sub(lambda found: str(row[found[1]]), text)


def _system_message(system: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": system}] if system else []


def _check_template(writer: TextGenerator, subject: Mapping[str, Any]) -> None:
    if writer.chat_template is None:
        message = f"{subject['name']} has no chat template, and a dialogue is written through one"
        raise StepError(message, "give the model a chat_template")


def _generate_assistant_turns(
    context: StepContext, writer: TextGenerator, conversations: Sequence[Conversation], number: int
) -> None:
    """The model's next turn in every conversation that goes on."""
    live = [conversation for conversation in conversations if conversation.finish is None]
    sampling = {**context.params["sampling"], "n": 1}
    subject = context.params["models"][0]
    prompts = [conversation.messages() for conversation in live]
    found = generate_completions(
        context, subject, writer, prompts, sampling, seed=context.params["seed"], name=f"-{number:03}"
    )
    for conversation, (completion,) in zip(live, found, strict=True):
        _append_turn(conversation, "assistant", completion, context.params["dialogue"]["stop"])


def _generate_user_turns(
    context: StepContext, writer: TextGenerator, conversations: Sequence[Conversation], number: int
) -> None:
    """The other side's next turn."""
    dialogue = context.params["dialogue"]
    live = [conversation for conversation in conversations if conversation.finish is None]
    sampling = {**dialogue["sampling"], "n": 1}
    subject = context.params["models"][1]
    prompts = [conversation.swapped_messages(dialogue["begin"]) for conversation in live]
    # A seed of its own: two sides of one model would otherwise sample alike.
    seed = context.params["seed"] + 1 if sampling.get("seed") is None else sampling["seed"]
    found = generate_completions(context, subject, writer, prompts, sampling, seed=seed, name=f"-{number:03}")
    for conversation, (completion,) in zip(live, found, strict=True):
        _append_turn(conversation, "user", completion, dialogue["stop"])


def _append_turn(conversation: Conversation, role: str, completion: Completion, stop: Sequence[str]) -> None:
    """Add a turn, and see whether it is the last."""
    text = completion.text
    if not text:
        conversation.finish = "empty" if text == "" else completion.finish
        return
    conversation.turns.append({"role": role, "content": text})
    if any(word in text for word in stop):
        conversation.finish = "stop"
    elif completion.finish != "stop":
        conversation.finish = completion.finish


def _warn_of_broken_off(context: StepContext, conversations: Sequence[Conversation]) -> None:
    ends: dict[str, int] = {}
    for conversation in conversations:
        ends[conversation.finish or ""] = ends.get(conversation.finish or "", 0) + 1
    context.facts["ends"] = ends
    bad = len(conversations) - ends.get("stop", 0) - ends.get("turns", 0)
    if bad:
        summary = ", ".join(f"{name}: {count}" for name, count in sorted(ends.items()))
        context.events.emit(
            "warning",
            message=f"{bad} of {len(conversations)} conversations broke off ({summary})",
            advice="the column `finish` tells which; raise max_tokens if they were cut",
        )
