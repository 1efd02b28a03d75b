"""Generates with a model behind an HTTP interface: every reply is kept as it comes."""

from collections.abc import Mapping
from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.engines.asking import Line, Patience, Question
from posttrain.runtime.engines.forms import Manner
from posttrain.runtime.engines.kept import Completion
from posttrain.runtime.engines.many import ask_each
from posttrain.runtime.engines.writing import Order
from posttrain.runtime.faults import Interrupted, StepFault
from posttrain.spec.extension import Engine
from posttrain.spec.keys import digest

EXTENSION = Engine(
    name="http",
    summary="A model behind an HTTP interface, in the form of OpenAI, Anthropic or Gemini.",
)
# So many requests in a row without a reply are no accident.
_ENOUGH = 20


def run(context: Context, subject: Mapping[str, Any]) -> "HttpWriter":
    name = subject["name"]
    return HttpWriter({**subject["endpoint"], **context.params["access"][name]})


class HttpWriter:
    chat_template = "the endpoint's own"

    def __init__(self, endpoint: Mapping[str, Any]) -> None:
        self._endpoint = endpoint
        self._line = Line(endpoint)

    def write(self, order: Order) -> list[list[Completion]]:
        kept, missing = order.kept, order.kept.missing()
        # With some replies at hand the endpoint is there, and a few that fail are a matter of their own.
        failures = _Failures(_ENOUGH if kept.count else min(_ENOUGH, len(missing)))
        questions = [
            Question(prompt=order.prompts[place], manner=_manner(order, place, draw))
            for place, draw in missing
        ]

        def told(number: int, reply: Completion) -> None:
            kept.add(*missing[number], reply)
            order.progress(kept.count, kept.total)
            failures.note(reply)

        patience = Patience(
            attempts=self._endpoint["attempts"], request_seconds=self._endpoint["timeout_seconds"]
        )
        order.progress(kept.count, kept.total)
        if not ask_each(self._line, questions, patience, told, lambda: order.stop.asked):
            raise Interrupted
        return kept.all()

    def close(self) -> None:
        return


def _manner(order: Order, place: int, draw: int) -> Manner:
    sampling = order.sampling
    drawn = sampling["temperature"] > 0
    return Manner(
        temperature=sampling["temperature"],
        top_p=sampling["top_p"],
        max_tokens=sampling["max_tokens"],
        # Servers that heed it give the same completion for the same request.
        seed=int(digest([order.seed, order.kept.name(place), draw])[:7], 16) if drawn else None,
    )


class _Failures:
    """Ends the step when the endpoint is gone: what came before is kept."""

    def __init__(self, enough: int) -> None:
        self._enough = enough
        self._in_a_row = 0

    def note(self, reply: Completion) -> None:
        lost = reply.finish in ("error", "timeout")
        self._in_a_row = self._in_a_row + 1 if lost else 0
        if lost and self._in_a_row >= self._enough:
            message = f"{self._in_a_row} requests in a row had no reply; the last: {reply.error}"
            advice = "see whether the endpoint is up and run again: what came before is kept"
            raise StepFault(message, advice, retriable=True)
