"""User-defined functions in worker processes: results, timeouts, and failures."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.recipe_command import wait_until
from tests.runtime.rewards.reward_compilation import codes, compile_yaml_reward

from posttrain.compiler.rewards.graph import RewardGraph as Compiled
from posttrain.runtime.errors import StepError
from posttrain.runtime.rewards.engine import user_function_pool
from posttrain.runtime.rewards.engine.graph import Graph, Scores
from posttrain.spec.column_types import Interval


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    user_function_pool.close_idle_processes()


def graph_of(tmp_path: Path, code: str, **params: Any) -> tuple[Compiled, Graph]:
    """A graph with one python node that uses the file `grade.py` with the text `code`."""
    (tmp_path / "grade.py").write_text(textwrap.dedent(code))
    (tmp_path / "known_words.py").write_text("KNOWN = {'yes': 1.0, 'no': 0.0}\n")
    contents = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    node = {"python": {"call": "grade.py:score", "with": {"text": "completion"}, **params}}
    reads = {"completion": "text"}
    found = compile_yaml_reward(
        {"reads": reads, "nodes": {"node": node}, "returns": {"length": "completion"}}, contents
    )
    assert found.graph is not None, found.diagnostics
    files = {role: tmp_path / file.path for role, file in found.graph.files.items()}
    return found.graph, Graph.from_plan(found.graph.step_params(), files)


def score(tmp_path: Path, code: str, completions: list[Any], **params: Any) -> Scores:
    return graph_of(tmp_path, code, **params)[1].evaluate({"completion": completions})


def test_a_function_gives_values_with_reasons_or_abstains(tmp_path: Path):
    code = """
        from known_words import KNOWN
        print("loading is no answer")

        def score(text):
            print("nor is this", flush=True)
            if text not in KNOWN:
                return None
            return KNOWN[text], f"{text} is known"
    """
    scores = score(tmp_path, code, ["yes", "no", "maybe", "yes"], modules=["known_words.py"])
    assert scores.values["node"] == [1.0, 0.0, None, 1.0]
    assert scores.reasons["node"] == ["yes is known", "no is known", None, "yes is known"]


@pytest.mark.parametrize(
    ("returns", "code", "expected"),
    [
        ("boolean", "return len(text) > 1", [False, True]),
        ("text", "return text.upper()", ["A", "AB"]),
        ("number", "import numpy; return numpy.float32(len(text))", [1.0, 2.0]),
    ],
)
def test_a_function_gives_the_type_that_is_declared(
    tmp_path: Path, returns: str, code: str, expected: list[Any]
):
    graph, ready = graph_of(tmp_path, f"def score(text): {code}", returns=returns)
    assert graph.types["node"] == returns
    assert ready.evaluate({"completion": ["a", "ab"]}).values["node"] == expected


def test_a_call_that_hangs_is_killed_and_the_next_one_runs(tmp_path: Path):
    code = """
        import os, time
        def score(text):
            if text == "hang":
                while True: time.sleep(60)
            return float(os.getpid())
    """
    _, ready = graph_of(tmp_path, code, timeout_seconds=4.0)
    scores = ready.evaluate({"completion": ["a", "hang", "b"]})
    before, hung, after = scores.values["node"]
    assert hung is None
    assert scores.reasons["node"][1] == "`grade.py:score` took longer than 4 s"
    assert after != before
    assert not alive(int(before))
    assert ready.evaluate({"completion": ["c"]}).values["node"] == [
        after
    ]  # the process is reused for the next batch


def test_a_daemon_of_a_call_that_hangs_is_killed_with_it(tmp_path: Path):
    code = f"""
        import subprocess, time
        def score(text):
            nap = "(setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 100000' &)"
            subprocess.run(["sh", "-c", nap])
            while True: time.sleep(60)
    """
    scores = score(tmp_path, code, ["hang"], timeout_seconds=4.0)
    assert scores.values["node"] == [None]
    assert not alive(int((tmp_path / "pid").read_text()))


def alive(process: int) -> bool:
    """Whether a process is running. A zombie is not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError('bad text')",
        "return 'high'",
        "return 5.0",
        "return float('nan')",
        "return object()",
        "import os; os._exit(3)",
        "import sys; sys.exit()",
    ],
)
def test_a_call_that_fails_is_told_and_scored_as_the_recipe_says(tmp_path: Path, body: str):
    code = f"def score(text):\n    if text == 'ok': return 0.5\n    {body}\n"
    scores = score(tmp_path, code, ["ok", "bad", "ok"], low=0.0, high=1.0, on_error=-1.0)
    assert scores.values["node"] == [0.5, -1.0, 0.5]
    assert scores.reasons["node"][1].startswith("`grade.py:score`: ")
    with pytest.raises(StepError, match=r"the reward node `node`: `grade\.py:score`: "):
        score(tmp_path, code, ["bad"], low=0.0, high=1.0)


@pytest.mark.parametrize(
    "code",
    ["def other(text): pass", "raise RuntimeError('no')", "def score(:", "import nowhere", "score = 3"],
)
def test_a_file_that_cannot_be_loaded_ends_the_step(tmp_path: Path, code: str):
    with pytest.raises(StepError, match=r"grade\.py: \w+Error: "):
        score(tmp_path, code, ["a"], on_error="abstain")


def test_equal_rows_are_called_once_and_several_processes_share_the_rest(tmp_path: Path):
    code = f"""
        import os, time
        def score(text):
            with open({str(tmp_path / "calls")!r}, "a") as calls:
                calls.write(text + chr(10))
            end = time.monotonic() + 30
            while text != "c" and open(calls.name).read().count(chr(10)) < 2 and time.monotonic() < end:
                time.sleep(0.01)  # until another process has been called too
            return float(os.getpid())
    """
    values = score(tmp_path, code, ["a", "b", "a", "b"], processes=2, timeout_seconds=60).values["node"]
    assert sorted((tmp_path / "calls").read_text().split()) == ["a", "b"]
    assert values[0] != values[1]
    assert values[:2] == values[2:]
    assert os.getpid() not in values


def test_the_range_is_what_the_recipe_declares(tmp_path: Path):
    code = "def score(text): return 0"
    assert graph_of(tmp_path, code, low=0, high=1)[0].ranges["node"] == Interval(0.0, 1.0)
    assert graph_of(tmp_path, code, low=0, high=1, on_error=-2, on_timeout=3)[0].ranges["node"] == Interval(
        -2.0, 3.0
    )
    assert graph_of(tmp_path, code)[0].ranges["node"] == Interval.unbounded()
    assert graph_of(tmp_path, code, returns="boolean")[0].ranges["node"] == Interval(0.0, 1.0)


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"call": "grade.py"}, "PT0204"),
        ({"call": "missing.py:score"}, "PT0409"),
        ({"call": "../grade.py:score"}, "PT0409"),
        ({"call": "grade.py:score", "modules": ["none.py"]}, "PT0409"),
        ({"call": "grade.py:score", "returns": "boolean", "low": 0}, "PT0504"),
        ({"call": "grade.py:score", "low": 1, "high": 0}, "PT0504"),
        ({"call": "grade.py:score", "on_error": True}, "PT0504"),
        ({"call": "grade.py:score", "returns": "text", "on_timeout": 1}, "PT0504"),
        ({"call": "grade.py:score", "with": {}}, "PT0504"),
    ],
)
def test_what_cannot_be_is_refused_when_the_recipe_is_compiled(params: dict[str, Any], code: str):
    node = {"python": {"with": {"text": "completion"}, **params}}
    found = compile_yaml_reward(
        {"reads": {"completion": "text"}, "returns": node}, {"grade.py": b"def score(text): return 1"}
    )
    assert code in codes(found)


def test_a_hanging_call_ends_with_the_process_that_made_it(tmp_path: Path):
    started = tmp_path / "started"
    (tmp_path / "grade.py").write_text(
        f"import os, time\ndef score(text):\n    open({str(started)!r}, 'w').write(str(os.getpid()))\n"
        "    while True: time.sleep(60)\n"
    )
    code = (
        "from pathlib import Path\n"
        "from posttrain.runtime.rewards.engine.user_function_pool import UserFunction, call_many\n"
        f"function = UserFunction(Path({str(tmp_path / 'grade.py')!r}), 'score')\n"
        "call_many(function, [{'text': 'a'}], 600.0, 1)\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", code])
    wait_until(lambda: started.exists() and started.read_text() != "", "the call", caller)
    called = int(started.read_text())
    assert alive(called)
    caller.kill()
    caller.wait()
    wait_until(lambda: not alive(called), "the end of the called process")
