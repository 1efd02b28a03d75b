"""Asks a model behind an HTTP interface for one completion, and again when that may help."""

import os
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.engines import forms
from posttrain.runtime.engines.forms import Manner
from posttrain.runtime.engines.fuse import Fuse
from posttrain.runtime.engines.kept import Completion, Prompt
from posttrain.runtime.engines.posting import Call, Refused, posted
from posttrain.runtime.engines.throttle import throttle_of
from posttrain.runtime.faults import StepFault

_PASSING = (408, 409, 425, 429, 500, 502, 503, 504, 529)
# Statuses that may be about one prompt, and not about the way to the model.
_OF_THE_PROMPT = (400, 413, 422)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_LONGEST_SAID = 300
_LOOK = 0.5  # seconds after which those who wait look whether there is any use in it
# How a completion ends that the server will not write, whoever asks again.
REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long and how often to ask for one completion."""

    attempts: int
    # The longest that one request may take, and all of them together.
    request_seconds: float
    seconds: float = float("inf")


@dataclass(frozen=True, kw_only=True)
class Question:
    prompt: Prompt
    manner: Manner


@dataclass(frozen=True, kw_only=True)
class _Trouble:
    """Why a request brought nothing, and how long the server wants to be left alone."""

    error: str
    # The same for all that failed alike; the error where it is not given.
    cause: str = ""
    late: bool = False
    wait: float | None = None


_LATE = "no reply in time"
_NEVER_ASKED = _Trouble(
    error="it was never its turn: the endpoint takes few requests at a time", cause=_LATE, late=True
)


class Line:
    """The way to one endpoint: its key, and how many requests it takes at a time."""

    def __init__(self, endpoint: Mapping[str, Any]) -> None:
        self.endpoint = endpoint
        self.most: int = endpoint.get("concurrency", 1)
        self._key = _key(endpoint)
        self._throttle = throttle_of(forms.base_of(endpoint), endpoint["model"], self.most)

    def ask(
        self, question: Question, patience: Patience, stopped: threading.Event, fuse: Fuse | None = None
    ) -> Completion | None:
        """A completion, which has no text when none came; None when it was stopped before."""
        call = forms.call(self.endpoint, self._key, question.prompt, question.manner)
        fuse = fuse or Fuse.none()
        end = time.monotonic() + patience.seconds
        trouble, pause = _NEVER_ASKED, _FIRST_PAUSE
        for attempt in range(patience.attempts):
            began = self._admitted(end, stopped, fuse)
            if began is None:
                break
            found = self._asked(call, began, min(patience.request_seconds, end - time.monotonic()))
            if isinstance(found, Completion):
                fuse.note("")
                return found
            trouble = found
            fuse.note(trouble.cause or trouble.error, late=trouble.late)
            if attempt + 1 < patience.attempts:
                wait = pause * random.uniform(0.75, 1.25) if found.wait is None else found.wait
                _rest(min(wait, _LONGEST_PAUSE, end - time.monotonic()), stopped, fuse)
                pause *= 2
        if stopped.is_set():
            return None
        if fuse.blown:
            return Completion(None, None, "timeout" if fuse.late else "error", fuse.blown)
        if trouble is _NEVER_ASKED:
            fuse.note(_LATE, late=True)
        return _given_up(trouble, patience, late=trouble.late or time.monotonic() >= end)

    def _admitted(self, end: float, stopped: threading.Event, fuse: Fuse) -> float | None:
        """When the throttle let a request pass; None when there is no time left for one, or no use in it."""
        while not stopped.is_set() and not fuse.blown and (left := end - time.monotonic()) > 0:
            began = self._throttle.enter(min(left, _LOOK))
            if began is not None:
                return began
        return None

    def _asked(self, call: Call, began: float, seconds: float) -> Completion | _Trouble:
        """Send one request, and let the throttle know how it went."""
        fine = False
        try:
            found = forms.completion(self.endpoint, posted(call, max(seconds, 0.001)))
            fine = True
            return found
        except Refused as refused:
            fine = refused.status not in _PASSING
            return self._refusal(refused)
        except TimeoutError:
            return _Trouble(error=_LATE, late=True)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as broken:
            return _Trouble(error=f"{type(broken).__name__}: {broken}")
        finally:
            self._throttle.leave(began, fine=fine)

    def _refusal(self, refused: Refused) -> Completion | _Trouble:
        """What a refused request amounts to. A StepFault when every other one will be refused too."""
        said = refused.said.replace(self._key, "***") if self._key else refused.said
        message = f"{self.endpoint['provider']} answers {refused.status}: {said[:_LONGEST_SAID]}"
        if refused.status in _OF_THE_PROMPT:
            return Completion(None, None, REFUSED, message)
        if refused.status not in _PASSING:
            raise StepFault(message, ADVICE)
        if refused.wait is not None:
            self._throttle.pause(min(refused.wait, _LONGEST_PAUSE))
        cause = f"{self.endpoint['provider']} answers {refused.status}"
        return _Trouble(error=message, cause=cause, wait=refused.wait)


def _rest(seconds: float, stopped: threading.Event, fuse: Fuse) -> None:
    """Wait before the next attempt, as long as there is to be one."""
    end = time.monotonic() + seconds
    while not stopped.is_set() and not fuse.blown and (left := end - time.monotonic()) > 0:
        stopped.wait(min(left, _LOOK))


ADVICE = "look at the endpoint's url, model and key"


def _given_up(trouble: _Trouble, patience: Patience, *, late: bool) -> Completion:
    if not late:
        return Completion(None, None, "error", trouble.error)
    seconds = min(patience.seconds, patience.request_seconds)
    last = f"; last: {trouble.error}" if trouble.error and not trouble.late else ""
    if trouble is _NEVER_ASKED:
        last = f"; {trouble.error}"
    return Completion(None, None, "timeout", f"no reply within {seconds:g} s{last}")


def _key(endpoint: Mapping[str, Any]) -> str | None:
    name = endpoint.get("key")
    if name is None:
        return None
    value = os.environ.get(name, "").strip()
    if not value:
        raise StepFault(f"the environment variable {name} is not set", "set it to the endpoint's key")
    if not (value.isascii() and value.isprintable()):
        raise StepFault(f"the environment variable {name} holds no key", "a key is one line of plain letters")
    return value
