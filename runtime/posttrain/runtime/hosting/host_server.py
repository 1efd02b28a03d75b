"""The server process for user code: `PYTHON host_server.py KIND FILE NAME PARAMS [FOLDER ...]`.

KIND is `function`, `rows` or `episodes`. This file imports only the standard library, because another
interpreter can run it. It reads requests, one JSON object per line: the arguments of a function, calls of a
function on rows, or an operation of an episode. It answers each with one line, or with one for each call.
Output of the user code goes to the log of the step.
"""

import contextlib
import ctypes
import importlib.util
import inspect
import json
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TextIO

_PR_SET_CHILD_SUBREAPER = 36
_MAX_FRAMES, _MAX_CAUSES, _MAX_CHARS = 20, 5, 6000
Handler = Callable[[Any], "dict[str, Any] | Iterator[dict[str, Any]]"]


def main(kind: str, file: str, name: str, params: str, folders: list[str]) -> None:
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # so that user code that reads its input does not take requests
    os.close(nothing)
    responses = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # stdout to stderr, so that prints of user code do not mix with responses
    with contextlib.suppress(OSError, AttributeError):
        # Daemons of the user code remain descendants of this process, and end with it.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()
    sys.path[:1] = folders  # replaces the folder of this file
    try:
        make_handler, what = _HANDLERS[kind]
        target = _load_callable(file, name, what)
        handler = make_handler(target, json.loads(params))
    except BaseException as error:
        _write_response(responses, _describe_error(error, folders))
        return
    # The line of a function, for errors in what it returns.
    code = getattr(target, "__code__", None) if kind == "rows" else None
    _write_response(responses, {"ready": True, "line": code.co_firstlineno} if code else {"ready": True})
    main_process = os.getpid()
    for line in requests:
        for response in _responses(handler, json.loads(line), folders):
            if (
                os.getpid() != main_process
            ):  # a fork of the user's code, whose response would be read for the next row
                os._exit(1)
            _write_response(responses, response)


def _load_callable(file: str, name: str, what: str) -> Any:
    spec = importlib.util.spec_from_file_location("user_code", file)
    assert spec, "a Python file has a module spec"
    assert spec.loader, "the spec of a Python file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules["user_code"] = module
    spec.loader.exec_module(module)
    target = getattr(module, name, None)
    if not callable(target):
        raise AttributeError(f"the file has no {what} `{name}`")
    return target


def _function_handler(function: Any, params: dict[str, Any]) -> Handler:
    """A handler that calls a function, which returns a value, or a value and a reason."""

    def handle(message: dict[str, Any]) -> dict[str, Any]:
        result = function(**params, **message)
        value, reason = result if isinstance(result, tuple) else (result, None)
        return {"value": _to_python(value), "reason": None if reason is None else str(reason)}

    return handle


class _RowsHandler:
    """Calls a function with a row, or with a batch of rows, and answers with the rows that it returns."""

    def __init__(self, function: Any, params: dict[str, Any]) -> None:
        self._function = function
        self._params = params
        try:
            self._takes_seed = "seed" in inspect.signature(function).parameters and "seed" not in params
        except (TypeError, ValueError):  # of some callables that are not written in Python
            self._takes_seed = False

    def __call__(self, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for call in message["calls"]:
            seed = call["seed"]
            random.seed(seed)
            numpy = sys.modules.get("numpy")
            if numpy is not None:
                numpy.random.seed(seed % 2**32)
            params = {**self._params, "seed": seed} if self._takes_seed else self._params
            argument = call["rows"] if message["batched"] else call["rows"][0]
            result = self._function(argument, **params)
            yield {"rows": _returned_rows(result, batched=message["batched"])}


def _returned_rows(result: Any, *, batched: bool) -> list[dict[str, Any]]:
    """The rows that a function returns: of one row, one, none or several; of a batch, any number."""
    if not batched and result is None:
        return []
    if not batched and isinstance(result, Mapping):
        return [dict(result)]
    if isinstance(result, str | bytes | Mapping) or not isinstance(result, Iterable):
        expected = "rows" if batched else "a dict, None or several dicts"
        raise TypeError(f"it returned {type(result).__name__}, and must return {expected}")
    rows = list(result)
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(f"it returned {type(row).__name__} as a row, and a row is a dict")
    return [dict(row) for row in rows]


class _EpisodeHandler:
    """Runs concurrent episodes: each number has its own object of the user's class."""

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


# The handler of each kind, and the kind of object that the file must define.
_HANDLERS: dict[str, tuple[Callable[[Any, dict[str, Any]], Handler], str]] = {
    "function": (_function_handler, "function"),
    "rows": (_RowsHandler, "function"),
    "episodes": (_EpisodeHandler, "class"),
}


def _to_python(value: Any) -> Any:
    """Convert a NumPy or torch scalar to a Python number."""
    return value.item() if hasattr(value, "item") else value


def _to_plain(value: Any) -> Any:
    """Convert a NumPy or torch value inside a result to one that JSON has."""
    for method in ("item", "tolist"):
        try:
            return getattr(value, method)()
        except (AttributeError, TypeError, ValueError, RuntimeError):
            continue
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _check_observation(observation: Any) -> str:
    if observation is None:
        return ""
    if not isinstance(observation, str):
        raise TypeError(f"an observation must be a str, not {type(observation).__name__}")
    return observation


def _responses(handler: Handler, message: Any, folders: list[str]) -> Iterator[dict[str, Any]]:
    """The responses to a message. After an error the remaining calls are not made."""
    try:
        found = handler(message)
        if isinstance(found, dict):
            yield found
        else:
            yield from found
    except BaseException as error:
        yield _describe_error(error, folders)


def _describe_error(error: BaseException, folders: list[str]) -> dict[str, Any]:
    """The error with its traceback from the user's code on. User files have names without their folder."""
    text, place = _summary(error), None
    try:
        whole = traceback.TracebackException.from_exception(error)
        part = whole
        for _ in range(_MAX_CAUSES):
            if part is None:
                break
            part.stack = traceback.StackSummary.from_list(_user_frames(part.stack, folders))
            part = part.__cause__ or part.__context__
        lines = "".join(whole.format())
        # The user's files have relative names now.
        own = [frame for frame in whole.stack if not frame.filename.startswith(("/", "<"))]
        place = f"{own[-1].filename}:{own[-1].lineno}" if own else None
    except Exception:  # an exception whose attributes raise
        lines = ""
    if len(lines) > _MAX_CHARS:
        lines = lines[: _MAX_CHARS // 2] + "\n  ...\n" + lines[-_MAX_CHARS // 2 :]
    return {"error": text, "place": place, "traceback": lines.rstrip()}


def _summary(error: BaseException) -> str:
    name = type(error).__name__
    try:
        return f"{name}: {error}"[:500]
    except Exception as problem:  # __str__ is code of the user
        return f"{name}, whose __str__ raises {type(problem).__name__}"


def _user_frames(stack: "traceback.StackSummary", folders: list[str]) -> "list[traceback.FrameSummary]":
    frames = [frame for frame in stack if frame.filename != __file__ and "importlib" not in frame.filename]
    shown = frames[-_MAX_FRAMES:]
    for frame in shown:
        text = frame.line  # the line is read from the file here, before the name changes
        for folder in folders if text is not None else ():
            if frame.filename.startswith(folder + os.sep):
                frame.filename = os.path.relpath(frame.filename, folder)
    return shown


def _write_response(responses: TextIO, response: dict[str, Any]) -> None:
    try:
        text = json.dumps(response, default=_to_plain)
    except Exception as error:
        text = json.dumps({"error": f"the returned value is not JSON serializable: {_summary(error)}"[:500]})
    responses.write(text + "\n")


def _exit_with_parent(parent: int) -> None:
    """Exit soon after the parent dies, even during a call."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
