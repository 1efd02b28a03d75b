"""The process in which episodes live: `PYTHON hosting.py FILE CLASS PARAMS [FOLDER ...]`.

It stands alone, since the interpreter that runs it may be another one than ours. It takes one JSON
object a line and answers each with one line. What episodes print goes to the step's log.
"""

import importlib.util
import json
import os
import sys
import threading
import time
from typing import Any, TextIO


def main(file: str, name: str, params: str, folders: list[str]) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # from here on, what is printed is no answer
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    sys.path[:1] = folders  # in place of this file's own folder
    try:
        opened = _class(file, name)
        given = json.loads(params)
    except BaseException as error:
        _tell(answers, {"error": _said(error)})
        return
    _tell(answers, {"ready": True})
    episodes: dict[int, Any] = {}
    for line in sys.stdin:
        _tell(answers, _answer(opened, given, episodes, json.loads(line)))


def _class(file: str, name: str) -> Any:
    spec = importlib.util.spec_from_file_location("user_environment", file)
    assert spec, "a Python file can be loaded"
    assert spec.loader, "and has something that loads it"
    module = importlib.util.module_from_spec(spec)
    sys.modules["user_environment"] = module
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not callable(found):
        raise AttributeError(f"the file has no class `{name}`")
    return found


def _answer(opened: Any, given: Any, episodes: dict[int, Any], asked: Any) -> Any:
    try:
        return _done(opened, given, episodes, asked)
    except BaseException as error:
        return {"error": _said(error)}


def _done(opened: Any, given: Any, episodes: dict[int, Any], asked: Any) -> Any:
    do, number = asked["do"], asked["episode"]
    if do == "reset":
        episodes[number] = opened(**given)
        return {"observation": _text(episodes[number].reset(asked["row"], asked["seed"]))}
    if do == "close":
        episode = episodes.pop(number, None)
        if hasattr(episode, "close"):
            episode.close()
        return {}
    if do == "step":
        observation, over = episodes[number].step(asked["action"])
        return {"observation": _text(observation), "over": bool(over)}
    score = episodes[number].score()
    return {"score": score.item() if hasattr(score, "item") else score}


def _text(observation: Any) -> str:
    if observation is None:
        return ""
    if not isinstance(observation, str):
        raise TypeError(f"an observation is text; this is {type(observation).__name__}")
    return observation


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def _tell(answers: TextIO, answer: Any) -> None:
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
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
