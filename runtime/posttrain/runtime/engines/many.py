"""Asks an endpoint many questions side by side, and hands over each reply as it comes."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Queue

from posttrain.runtime.engines.asking import ADVICE, REFUSED, Line, Patience, Question
from posttrain.runtime.engines.fuse import Fuse
from posttrain.runtime.engines.kept import Completion
from posttrain.runtime.faults import StepFault

# So many of the first replies, and then so many in a row, are enough to know that it is not the prompts.
_ENOUGH = 20
Told = Callable[[int, Completion], None]


def ask_many(line: Line, questions: Sequence[Question], patience: Patience) -> list[Completion]:
    """A completion for each question, in their order; soon, when nearly all fail for one cause."""
    replies: dict[int, Completion] = {}

    def told(place: int, reply: Completion) -> None:
        replies[place] = reply

    ask_each(line, questions, patience, told, lambda: False, Fuse(len(questions)))
    return [replies[place] for place in range(len(questions))]


def ask_each(
    line: Line,
    questions: Sequence[Question],
    patience: Patience,
    told: Told,
    asked_to_stop: Callable[[], bool],
    fuse: Fuse | None = None,
) -> bool:
    """Tell each reply with the place of its question; whether all questions were asked.

    At most as many requests are under way as the endpoint allows. Asked to stop, it begins no new
    ones, and tells what those bring that are under way.
    """
    stopped = threading.Event()
    replies: Queue[_Told] = Queue()
    refusals = _Refusals(len(questions))

    def ask(place: int) -> None:
        try:
            asked = None if stopped.is_set() else line.ask(questions[place], patience, stopped, fuse)
            replies.put((place, asked))
        except BaseException as error:
            stopped.set()  # it would end the others too
            replies.put((place, error))

    with ThreadPoolExecutor(line.most, thread_name_prefix="asking") as pool:
        try:
            for place in range(len(questions)):
                pool.submit(ask, place)
            for _ in questions:
                place, reply = _next(replies, stopped, asked_to_stop)
                if isinstance(reply, BaseException):
                    raise reply
                if reply is not None:
                    refusals.note(reply)
                    told(place, reply)
        except BaseException:
            stopped.set()  # else the pool would ask all that is left before it closes
            raise
    return not stopped.is_set()


def _next(replies: "Queue[_Told]", stopped: threading.Event, asked_to_stop: Callable[[], bool]) -> "_Told":
    """The next reply; meanwhile, look whether somebody wants this to end."""
    while True:
        if asked_to_stop():
            stopped.set()
        with contextlib.suppress(Empty):
            return replies.get(timeout=0.2)


_Told = tuple[int, Completion | BaseException | None]


class _Refusals:
    """Tells prompts that a server refuses from a server that refuses all."""

    def __init__(self, total: int) -> None:
        self._total = min(total, _ENOUGH)
        self._refused = 0
        self._answered = False

    def note(self, reply: Completion) -> None:
        self._answered = self._answered or reply.finish != REFUSED
        self._refused += reply.finish == REFUSED
        if not self._answered and self._refused >= self._total:
            raise StepFault(reply.error or "every request was refused", ADVICE)
