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
    held, samples = context.params["dialogue"], context.params["sampling"]["n"]
    talks = [_start_conversation(row, held) for row in rows for _ in range(samples)]
    with ExitStack() as stack:
        writers = [stack.enter_context(open_engine(context, one)) for one in context.params["subjects"]]
        for writer, subject in zip(writers, context.params["subjects"], strict=True):
            _check_template(writer, subject)
        context.events.emit("phase", name="conversing")
        for number in range(1, held["turns"] + 1):
            _generate_assistant_turns(context, writers[0], talks, number)
            if number < held["turns"]:
                _generate_user_turns(context, writers[1], talks, number)
    for talk in talks:
        talk.finish = talk.finish or "turns"
    check_missing(
        context, [talk.finish or "" for talk in talks if talk.finish in _FAILED_FINISHES], len(talks)
    )
    _warn_of_broken_off(context, talks)
    return [
        {**talk.row, "messages": talk.messages(), "turns": len(talk.turns), "finish": talk.finish}
        for talk in talks
        if talk.replies and talk.finish not in _FAILED_FINISHES
    ]


def _start_conversation(row: Row, held: Mapping[str, Any]) -> Conversation:
    talk = Conversation(row, _fill_template(held["system"], row), _fill_template(held["with_system"], row))
    _append_turn(talk, "user", Completion(_fill_template(held["opening"], row), None, "stop"), held["stop"])
    return talk


def _fill_template(text: str, row: Row) -> str:
    return _PLACEHOLDER.sub(lambda found: str(row[found[1]]), text)


def _system_message(system: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": system}] if system else []


def _check_template(writer: TextGenerator, subject: Mapping[str, Any]) -> None:
    if writer.chat_template is None:
        message = f"{subject['name']} has no chat template, and a dialogue is written through one"
        raise StepError(message, "give the model a chat_template")


def _generate_assistant_turns(
    context: StepContext, writer: TextGenerator, talks: Sequence[Conversation], number: int
) -> None:
    """The model's next turn in every conversation that goes on."""
    live = [talk for talk in talks if talk.finish is None]
    sampling = {**context.params["sampling"], "n": 1}
    subject = context.params["subjects"][0]
    prompts = [talk.messages() for talk in live]
    found = generate_completions(
        context, subject, writer, prompts, sampling, seed=context.params["seed"], name=f"-{number:03}"
    )
    for talk, (completion,) in zip(live, found, strict=True):
        _append_turn(talk, "assistant", completion, context.params["dialogue"]["stop"])


def _generate_user_turns(
    context: StepContext, writer: TextGenerator, talks: Sequence[Conversation], number: int
) -> None:
    """The other side's next turn."""
    held = context.params["dialogue"]
    live = [talk for talk in talks if talk.finish is None]
    sampling = {**held["sampling"], "n": 1}
    subject = context.params["subjects"][1]
    prompts = [talk.swapped_messages(held["begin"]) for talk in live]
    seed = context.params["seed"] + 1  # or two sides of one model would draw alike
    found = generate_completions(context, subject, writer, prompts, sampling, seed=seed, name=f"-{number:03}")
    for talk, (completion,) in zip(live, found, strict=True):
        _append_turn(talk, "user", completion, held["stop"])


def _append_turn(talk: Conversation, role: str, completion: Completion, stop: Sequence[str]) -> None:
    """Add a turn, and see whether it is the last."""
    text = completion.text
    if not text:
        talk.finish = "empty" if text == "" else completion.finish
        return
    talk.turns.append({"role": role, "content": text})
    if any(word in text for word in stop):
        talk.finish = "stop"
    elif completion.finish != "stop":
        talk.finish = completion.finish


def _warn_of_broken_off(context: StepContext, talks: Sequence[Conversation]) -> None:
    ends: dict[str, int] = {}
    for talk in talks:
        ends[talk.finish or ""] = ends.get(talk.finish or "", 0) + 1
    context.facts["ends"] = ends
    bad = len(talks) - ends.get("stop", 0) - ends.get("turns", 0)
    if bad:
        told = ", ".join(f"{name}: {count}" for name, count in sorted(ends.items()))
        context.events.emit(
            "warning",
            message=f"{bad} of {len(talks)} conversations broke off ({told})",
            advice="the column `finish` tells which; raise max_tokens if they were cut",
        )
