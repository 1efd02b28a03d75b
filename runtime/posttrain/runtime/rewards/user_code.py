"""The process in which a user's function runs: `python -m posttrain.runtime.rewards.user_code FILE NAME ...`.

It takes one JSON object a line, the function's arguments, and answers each with one line: its value,
or the error. What the function prints goes to the step's log. Folders to import from follow NAME.
"""

import importlib.util
import json
import os
import sys
import threading
import time
from typing import Any, TextIO


def main(file: str, name: str, folders: list[str]) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # from here on, what is printed is no answer
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    sys.path[:0] = folders
    try:
        function = _function(file, name)
    except BaseException as error:
        _tell(answers, {"refused": _said(error)})
        return
    _tell(answers, {"ready": True})
    for line in sys.stdin:
        _tell(answers, _answer(function, json.loads(line)))


def _function(file: str, name: str) -> Any:
    spec = importlib.util.spec_from_file_location("user_reward", file)
    assert spec, "a Python file can be loaded"
    assert spec.loader, "and has something that loads it"
    module = importlib.util.module_from_spec(spec)
    sys.modules["user_reward"] = module
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise AttributeError(f"the file has no function `{name}`")
    return function


def _answer(function: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        given = function(**arguments)
        value, reason = given if isinstance(given, tuple) else (given, None)
        if hasattr(value, "item"):  # numpy's numbers and torch's
            value = value.item()
        return {"value": value, "reason": None if reason is None else str(reason)}
    except BaseException as error:
        return {"error": _said(error)}


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def _tell(answers: TextIO, answer: dict[str, Any]) -> None:
    try:
        text = json.dumps(answer)
    except (TypeError, ValueError) as error:
        text = json.dumps({"error": f"what it gave cannot be passed on: {error}"[:500]})
    answers.write(text + "\n")


def _end_with(parent: int) -> None:
    """End this process soon after the one that started it, even in the middle of a call."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
