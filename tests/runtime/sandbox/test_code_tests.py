"""The reward op `code_tests`: the share of tests that a program passes, and rows without a verdict."""

import itertools
import json
import time
from threading import Lock
from typing import Any

import pytest
from tests.runtime.rewards.reward_compilation import (
    codes,
    compile_yaml_reward,
    compiled_graph,
    evaluate_graph,
)

from posttrain.runtime.errors import StepError
from posttrain.runtime.sandbox import process_runner, program_tests
from posttrain.runtime.sandbox.languages import load_language
from posttrain.runtime.sandbox.limits import Limits, RunResult
from posttrain.runtime.sandbox.program_tests import (
    InvalidTests,
    ProgramTestSettings,
    judge_run,
    outputs_match,
    read_tests,
    values_match,
)
from posttrain.spec.column_types import Interval

pytestmark = pytest.mark.usefixtures("bubblewrap")

DOUBLE_PROGRAM = "print(int(input()) * 2)"
DOUBLE_TESTS = [{"stdin": "4", "stdout": "8\n"}]
ADD_PROGRAM = "def add(a, b):\n    return a + b"


def node(**params: Any) -> dict[str, Any]:
    return {"code_tests": {"of": "completion", "tests": "tests", **params}}


def reward(**params: Any) -> dict[str, Any]:
    return {
        "reads": {"completion": "text", "tests": "any"},
        "nodes": {"code": node(**params)},
        "returns": "code",
    }


def scores(programs: list[Any], tests: list[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    result = evaluate_graph(compiled_graph(reward(**params)), {"completion": programs, "tests": tests})
    return result.values["code"], list(result.reasons["code"])


def test_the_share_of_tests_passed():
    tests = [
        {"call": "add", "args": [1, 2], "expected": 3},
        {"call": "add", "args": ["a", "b"], "expected": "ab"},
        {"call": "add", "args": [1, 2], "expected": 4},
        {"call": "add", "args": [[1], [2]], "expected": [1, 2]},
    ]
    values, reasons = scores(
        [ADD_PROGRAM, "def add(a, b): return None", None, DOUBLE_PROGRAM],
        [tests] * 3 + [json.dumps(DOUBLE_TESTS)],
    )
    assert values == [0.75, 0.0, 0.0, 1.0]
    assert reasons[0] == "passed 3 of 4; test 3 wrong: expected '4', got '3'"
    assert reasons[1] == "passed 0 of 4; test 1 wrong: expected '3', got 'null'"
    assert reasons[2] == "there is no program"
    assert reasons[3] == "passed 1 of 1"


def test_all_or_nothing_stops_at_the_first_failure(monkeypatch: pytest.MonkeyPatch):
    runs: list[Any] = []
    real = process_runner.run
    monkeypatch.setattr(
        program_tests, "run_job", lambda *arguments: runs.append(arguments) or real(*arguments)
    )
    tests = [{"stdin": "1", "stdout": "2"}, {"stdin": "2", "stdout": "5"}, {"stdin": "3", "stdout": "6"}]
    assert scores([DOUBLE_PROGRAM], [tests], score="all")[0] == [0.0]
    assert len(runs) == 2
    assert scores([DOUBLE_PROGRAM], [tests[:1]], score="all")[0] == [1.0]


def test_equal_pairs_and_programs_that_do_not_compile_run_once(monkeypatch: pytest.MonkeyPatch):
    runs: list[Any] = []
    real = process_runner.run
    monkeypatch.setattr(
        program_tests, "run_job", lambda *arguments: runs.append(arguments) or real(*arguments)
    )
    values, reasons = scores(
        [DOUBLE_PROGRAM, DOUBLE_PROGRAM, "print("],
        [DOUBLE_TESTS, DOUBLE_TESTS, DOUBLE_TESTS * 5],
        concurrency=1,
    )
    assert values == [1.0, 1.0, 0.0]
    assert len(runs) == 2
    assert "does not compile: SyntaxError" in reasons[2]


@pytest.mark.parametrize(
    "tests",
    [
        [],
        None,
        "",
        "{}",
        "[",
        [{}],
        [{"stdin": "1"}],
        [{"call": "f", "args": []}],
        [{"stdin": 1, "stdout": "1"}],
    ],
)
def test_tests_that_are_none_abstain_or_what_is_said(tests: Any):
    assert scores([DOUBLE_PROGRAM], [tests])[0] == [None]
    assert scores([DOUBLE_PROGRAM], [tests], on_error=-1.0)[0] == [-1.0]
    with pytest.raises(StepError, match="test"):
        scores([DOUBLE_PROGRAM], [tests], on_error="fail")


SLEEPER = "import time\nif not (x := input()): time.sleep(60)\nprint(x)"


def test_a_test_beyond_the_wall_clock_limit_is_undecided_or_what_is_said():
    tests = [{"stdin": "1", "stdout": "1"}, {"stdin": "\n", "stdout": ""}, {"stdin": "2", "stdout": "2"}]
    values, reasons = scores([SLEEPER], [tests], timeout_seconds=2)
    assert values == [None]
    assert "test 2 undecided: ran longer than 2 s of wall-clock time" in reasons[0]
    assert scores([SLEEPER], [tests], timeout_seconds=2, on_timeout="count")[0] == [2 / 3]
    assert scores([SLEEPER], [tests], timeout_seconds=2, on_timeout=-0.5)[0] == [-0.5]
    with pytest.raises(StepError, match="undecided"):
        scores([SLEEPER], [tests], timeout_seconds=2, on_timeout="fail")


class LateRuns:
    """Makes the first runs late, as on a busy machine, and records the programs that run at the same time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, late: int) -> None:
        self._late, self._real, self._lock = late, process_runner.run, Lock()
        self._running, self.peaks = 0, list[int]()
        monkeypatch.setattr(program_tests, "run_job", self.run)

    def run(self, sandbox: Any, job: Any) -> RunResult:
        with self._lock:
            self._running += 1
            self.peaks.append(self._running)
            late, self._late = self._late > 0, self._late - 1
        ended = RunResult(outcome="late") if late else self._real(sandbox, job)
        with self._lock:
            self._running -= 1
        return ended


def test_a_late_test_runs_once_more_alone(monkeypatch: pytest.MonkeyPatch):
    programs = [f"{DOUBLE_PROGRAM} # {number}" for number in range(4)]
    runs = LateRuns(monkeypatch, late=4)
    assert scores(programs, [DOUBLE_TESTS * 3] * 4, concurrency=4)[0] == [1.0] * 4
    assert len(runs.peaks) == 4 * 3 + 4
    runs = LateRuns(monkeypatch, late=2)
    assert scores(programs[:1], [DOUBLE_TESTS * 3])[0] == [None]
    assert runs.peaks == [1, 1]


def test_the_score_does_not_depend_on_wall_clock_time(monkeypatch: pytest.MonkeyPatch):
    """Many tests, on a machine so busy that each takes long although it uses little CPU time."""
    clock = itertools.count(step=50)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    done = RunResult(outcome="exited", output=b"8\n", seconds=9.0)
    monkeypatch.setattr(program_tests, "run_job", lambda *_: done)
    assert scores([DOUBLE_PROGRAM], [DOUBLE_TESTS * 10_000])[0] == [1.0]


def test_cpu_time_beyond_the_limits_is_a_failure():
    tests = [{"stdin": "1", "stdout": "1"}] * 3
    values, reasons = scores(["while True: pass"], [tests[:1]], cpu_seconds=1)
    assert values == [0.0]
    assert "timed_out: used 1 s of CPU time" in reasons[0]


def test_after_some_tests_beyond_the_cpu_time_the_others_are_failed(monkeypatch: pytest.MonkeyPatch):
    runs: list[Any] = []
    late = RunResult(outcome="exited", status=152)
    monkeypatch.setattr(program_tests, "run_job", lambda *given: runs.append(given) or late)
    assert scores([DOUBLE_PROGRAM], [DOUBLE_TESTS * 10_000])[0] == [0.0]
    assert len(runs) == 3
    assert scores([DOUBLE_PROGRAM], [DOUBLE_TESTS * 10], max_timeouts=5)[0] == [0.0]
    assert len(runs) == 3 + 5


def test_the_range_is_told():
    assert compiled_graph(reward()).ranges["code"] == Interval(0.0, 1.0)
    assert compiled_graph(reward(on_timeout=-0.5, on_error=2.0)).ranges["code"] == Interval(-0.5, 2.0)


@pytest.mark.parametrize(
    "params",
    [
        {"sandbox": "landlock", "processes": 2},
        {"sandbox": "landlock", "disk_mb": 1},
        {"memory_mb": 128, "processes": 4},
        {"compare": "exact", "tolerance": 0.1},
        {"language": "cobol"},
    ],
)
def test_parameters_that_do_not_go_together(params: dict[str, Any]):
    assert codes(compile_yaml_reward(reward(**params)))


def test_a_box_that_does_not_start_is_no_fault_of_the_program():
    settings = ProgramTestSettings(language=load_language("python"), limits=Limits())
    (test,) = read_tests(DOUBLE_TESTS)
    with pytest.raises(StepError, match="cannot start the sandbox: bwrap: no room") as raised:
        judge_run(RunResult(outcome="not started", status=1, errors=b"bwrap: no room\n"), test, settings)
    assert raised.value.retriable


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (152, "timed_out"),
        (159, "forbidden"),
        (137, "memory"),
        (139, "crashed"),
        (134, "crashed"),
        (1, "crashed"),
    ],
)
def test_what_a_status_means(status: int, verdict: str):
    settings = ProgramTestSettings(language=load_language("python"), limits=Limits())
    (test,) = read_tests(DOUBLE_TESTS)
    assert judge_run(RunResult(outcome="exited", status=status), test, settings).verdict == verdict


@pytest.mark.parametrize(
    ("found", "expected", "compare", "same"),
    [
        ("1 \n2\n\n", "1\n2", "lines", True),
        ("1\n\n2", "1\n2", "lines", False),
        ("1\n", "1", "exact", False),
        (" 1\n2", "1 2", "words", True),
        ("1.0000001", "1", "words", True),
        ("1.1", "1", "words", False),
        ("nan", "nan", "words", True),
        ("1 2", "1", "words", False),
    ],
)
def test_outputs(found: str, expected: str, compare: Any, same: bool):
    assert outputs_match(found, expected, compare, 1e-6) is same


@pytest.mark.parametrize(
    ("found", "expected", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        ([1, [2]], [1, [2]], True),
        ([1], [1, 2], False),
        ({"a": 1.0000000001}, {"a": 1}, True),
        ({"a": 1}, {"b": 1}, False),
        (None, None, True),
        (None, 0, False),
        ("1", 1, False),
        (10**400, 1.5, False),
    ],
)
def test_results(found: Any, expected: Any, same: bool):
    assert values_match(found, expected, 1e-6) is same


def test_tests_of_a_table_have_nulls_for_what_they_lack():
    rows = [
        {"stdin": "1", "stdout": "2", "call": None, "args": None, "expected": None},
        {"stdin": None, "stdout": None, "call": "f", "args": [1], "expected": 2},
    ]
    assert [test.input_mode for test in read_tests(rows)] == ["stdin", "call"]
    with pytest.raises(InvalidTests, match="test 1"):
        read_tests([{"stdin": "1", "stdout": "2", "call": "f", "expected": 1}])
