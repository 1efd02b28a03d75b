"""The process itself: `PYTHON inside.py KIND FILE NAME PARAMS [FOLDER ...]`, KIND function or episodes.

It stands alone, since the interpreter that runs it may be another one than ours. It takes one JSON object a
line, what a function is called with or what an episode is to do, and answers each with one line. What is
printed goes to the step's log.
"""

import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

Handler = Callable[[Any], dict[str, Any]]


def main(kind: str, file: str, name: str, params: str, folders: list[str]) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # from here on, what is printed is no answer
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()
    sys.path[:1] = folders  # in place of this file's own folder
    try:
        made, what = _HANDLERS[kind]
        answer = made(_load_callable(file, name, what), json.loads(params))
    except BaseException as error:
        _write_response(answers, {"error": _format_error(error)})
        return
    _write_response(answers, {"ready": True})
    for line in sys.stdin:
        _write_response(answers, _call_handler(answer, json.loads(line)))


def _load_callable(file: str, name: str, what: str) -> Any:
    spec = importlib.util.spec_from_file_location("user_code", file)
    assert spec, "a Python file can be loaded"
    assert spec.loader, "and has something that loads it"
    module = importlib.util.module_from_spec(spec)
    sys.modules["user_code"] = module
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not callable(found):
        raise AttributeError(f"the file has no {what} `{name}`")
    return found


def _function_handler(function: Any, params: dict[str, Any]) -> Handler:
    """A function is called with what is asked, and gives a value, perhaps with a reason."""

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        given = function(**params, **asked)
        value, reason = given if isinstance(given, tuple) else (given, None)
        return {"value": _to_python(value), "reason": None if reason is None else str(reason)}

    return answer


class _EpisodeHandler:
    """Several episodes side by side, each by its number an object of the user's class."""

    def __init__(self, opened: Any, params: dict[str, Any]) -> None:
        self._factory = opened
        self._params = params
        self._active: dict[int, Any] = {}

    def __call__(self, asked: dict[str, Any]) -> dict[str, Any]:
        do, number = asked["do"], asked["episode"]
        if do == "reset":
            self._active[number] = self._factory(**self._params)
            return {
                "observation": _check_observation(self._active[number].reset(asked["row"], asked["seed"]))
            }
        if do == "close":
            episode = self._active.pop(number, None)
            if hasattr(episode, "close"):
                episode.close()
            return {}
        if do == "step":
            observation, over = self._active[number].step(asked["action"])
            return {"observation": _check_observation(observation), "over": bool(over)}
        return {"score": _to_python(self._active[number].score())}


# What each kind answers with, and what it is that the file must have.
_HANDLERS: dict[str, tuple[Callable[[Any, dict[str, Any]], Handler], str]] = {
    "function": (_function_handler, "function"),
    "episodes": (_EpisodeHandler, "class"),
}


def _to_python(value: Any) -> Any:
    """numpy's numbers and torch's as Python's."""
    return value.item() if hasattr(value, "item") else value


def _check_observation(observation: Any) -> str:
    if observation is None:
        return ""
    if not isinstance(observation, str):
        raise TypeError(f"an observation is text; this is {type(observation).__name__}")
    return observation


def _call_handler(answer: Handler, asked: Any) -> dict[str, Any]:
    try:
        return answer(asked)
    except BaseException as error:
        return {"error": _format_error(error)}


def _format_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def _write_response(answers: TextIO, answer: dict[str, Any]) -> None:
    try:
        text = json.dumps(answer)
    except (TypeError, ValueError) as error:
        text = json.dumps({"error": f"what it gave cannot be passed on: {error}"[:500]})
    answers.write(text + "\n")


def _exit_with_parent(parent: int) -> None:
    """End this process soon after the one that started it, even in the middle of a call."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
