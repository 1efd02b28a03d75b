"""The process itself: `PYTHON host_server.py KIND FILE NAME PARAMS [FOLDER ...]`, KIND function or episodes.

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
    responses = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # from here on, what is printed is no answer
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()
    sys.path[:1] = folders  # in place of this file's own folder
    try:
        make_handler, what = _HANDLERS[kind]
        handler = make_handler(_load_callable(file, name, what), json.loads(params))
    except BaseException as error:
        _write_response(responses, {"error": _format_error(error)})
        return
    _write_response(responses, {"ready": True})
    for line in sys.stdin:
        _write_response(responses, _call_handler(handler, json.loads(line)))


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
    """Calls a function with the message; it returns a value, or a value and a reason."""

    def handle(message: dict[str, Any]) -> dict[str, Any]:
        result = function(**params, **message)
        value, reason = result if isinstance(result, tuple) else (result, None)
        return {"value": _to_python(value), "reason": None if reason is None else str(reason)}

    return handle


class _EpisodeHandler:
    """Several episodes side by side, each by its number an object of the user's class."""

    def __init__(self, factory: Any, params: dict[str, Any]) -> None:
        self._factory = factory
        self._params = params
        self._active: dict[int, Any] = {}

    def __call__(self, message: dict[str, Any]) -> dict[str, Any]:
        op, number = message["op"], message["episode"]
        if op == "reset":
            self._active[number] = self._factory(**self._params)
            return {
                "observation": _check_observation(self._active[number].reset(message["row"], message["seed"]))
            }
        if op == "close":
            episode = self._active.pop(number, None)
            if hasattr(episode, "close"):
                episode.close()
            return {}
        if op == "step":
            observation, done = self._active[number].step(message["action"])
            return {"observation": _check_observation(observation), "done": bool(done)}
        return {"score": _to_python(self._active[number].score())}


# The handler of each kind, and what the file must define for it.
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


def _call_handler(handler: Handler, message: Any) -> dict[str, Any]:
    try:
        return handler(message)
    except BaseException as error:
        return {"error": _format_error(error)}


def _format_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def _write_response(responses: TextIO, response: dict[str, Any]) -> None:
    try:
        text = json.dumps(response)
    except (TypeError, ValueError) as error:
        text = json.dumps({"error": f"what it gave cannot be passed on: {error}"[:500]})
    responses.write(text + "\n")


def _exit_with_parent(parent: int) -> None:
    """End this process soon after the one that started it, even in the middle of a call."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
