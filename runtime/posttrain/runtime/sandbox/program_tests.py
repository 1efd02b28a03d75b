"""Runs the tests of a program. The output is compared here, outside the sandbox."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from posttrain.runtime.errors import StepError
from posttrain.runtime.sandbox.job import Job, Sandbox
from posttrain.runtime.sandbox.languages import InputMode, Language
from posttrain.runtime.sandbox.limits import Limits, RunResult, Verdict
from posttrain.runtime.sandbox.process_runner import run as run_job

Compare = Literal["lines", "exact", "words"]
_SHOWN_CHARACTERS = 80
_MAX_DEPTH = 200
_CALL_KEYS = {"call", "args", "kwargs", "expected"}


@dataclass(frozen=True, kw_only=True)
class ProgramTest:
    input_mode: InputMode
    input: bytes
    expected: Any


@dataclass(frozen=True, kw_only=True)
class ProgramTestSettings:
    """How to run programs and compare their output."""

    language: Language
    limits: Limits
    # The number of tests beyond the CPU time limit after which the remaining tests are failed.
    max_timeouts: int = 3
    compare: Compare = "lines"
    tolerance: float = 0.0
    # Whether to skip the remaining tests after the first failure.
    stop_early: bool = False
    # Whether an undecided test counts as failed, so that the remaining tests are run.
    count_undecided: bool = False


@dataclass(frozen=True, kw_only=True)
class ProgramTestResult:
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ProgramTestRun:
    """The results of the tests that ran, in order."""

    results: tuple[ProgramTestResult, ...] = ()

    def count(self, verdict: Verdict) -> int:
        return sum(result.verdict == verdict for result in self.results)

    def then(self, *results: ProgramTestResult) -> "ProgramTestRun":
        return ProgramTestRun(results=(*self.results, *results))

    def without_last(self) -> "ProgramTestRun":
        return ProgramTestRun(results=self.results[:-1])


class InvalidTests(Exception):
    """The tests of a row are malformed."""


def read_tests(tests: Any) -> list[ProgramTest]:
    """Parse the tests of a row: a list of {stdin, stdout} or {call, args, expected}, or the same as JSON."""
    if isinstance(tests, str):
        try:
            tests = json.loads(tests)
        except (ValueError, RecursionError) as error:
            raise InvalidTests(f"the tests are not valid JSON: {error}") from None
    if not isinstance(tests, list | tuple) or not tests:
        raise InvalidTests("the tests are not a list, or the list is empty")
    return [_parse_test(one, number) for number, one in enumerate(cast(Sequence[Any], tests), 1)]


def _parse_test(test: Any, number: int) -> ProgramTest:
    if isinstance(test, Mapping):
        # A table has nulls for the keys that other rows have.
        fields = {key: value for key, value in cast(Mapping[str, Any], test).items() if value is not None}
        if isinstance(fields.get("call"), str) and "expected" in test and fields.keys() <= _CALL_KEYS:
            call = {
                "call": fields["call"],
                "args": fields.get("args", []),
                "kwargs": fields.get("kwargs", {}),
            }
            if isinstance(call["args"], list) and isinstance(call["kwargs"], dict):
                return ProgramTest(
                    input_mode="call", input=json.dumps(call).encode(), expected=fields.get("expected")
                )
        elif fields.keys() <= {"stdin", "stdout"} and isinstance(fields.get("stdout"), str):
            stdin = fields.get("stdin", "")
            if isinstance(stdin, str):
                return ProgramTest(input_mode="stdin", input=stdin.encode(), expected=fields["stdout"])
    raise InvalidTests(f"test {number} is neither {{stdin, stdout}} nor {{call, args, expected}}")


def run_tests(
    sandbox: Sandbox,
    program: str,
    tests: Sequence[ProgramTest],
    settings: ProgramTestSettings,
    *,
    earlier: ProgramTestRun | None = None,
) -> ProgramTestRun:
    """Run the tests in order. Stop at a test that the wall clock leaves undecided.

    With `earlier`, an undecided run, continue at its last test while no other program runs.
    """
    alone = earlier is not None
    run = ProgramTestRun() if earlier is None else earlier.without_last()
    while len(run.results) < len(tests):
        if run.count("timed_out") >= settings.max_timeouts:
            return run.then(*[run.results[-1]] * (len(tests) - len(run.results)))
        test = tests[len(run.results)]
        ended, result = _run_test(sandbox, program, test, settings)
        run = run.then(result)
        if result.verdict == "undecided" and not (alone and settings.count_undecided):
            return run
        if settings.language.fails_for_every_input(ended):
            return run.then(*[result] * (len(tests) - len(run.results)))
        if settings.stop_early and result.verdict != "passed":
            return run
    return run


def _run_test(
    sandbox: Sandbox, program: str, test: ProgramTest, settings: ProgramTestSettings
) -> tuple[RunResult, ProgramTestResult]:
    job = Job(
        language=settings.language,
        program=program.encode(errors="surrogatepass"),
        input_mode=test.input_mode,
        input=test.input,
        limits=settings.limits,
    )
    ended = run_job(sandbox, job)
    return ended, judge_run(ended, test, settings)


def judge_run(ended: RunResult, test: ProgramTest, settings: ProgramTestSettings) -> ProgramTestResult:
    """The result of a test from the outcome of its run."""
    limits = settings.limits
    if ended.outcome == "not started":
        message = ended.last_error_line or f"status {ended.status}"
        raise StepError(f"cannot start the sandbox: {message}", "see docs/sandbox.md", retriable=True)
    if ended.outcome == "late":
        reason = f"ran longer than {limits.seconds:g} s of wall-clock time"
        return ProgramTestResult(verdict="undecided", reason=reason)
    if ended.outcome == "overflowed":
        return ProgramTestResult(verdict="wrong", reason=f"wrote more than {limits.output_kb} KiB")
    if ended.status:
        return _signal_result(ended, settings) or ProgramTestResult(
            **_result_fields(settings.language.describe_failure(ended))
        )
    return _compare_output(ended.output, test, settings)


def _result_fields(failure: tuple[Verdict, str]) -> dict[str, Any]:
    return {"verdict": failure[0], "reason": failure[1]}


def _signal_result(ended: RunResult, settings: ProgramTestSettings) -> ProgramTestResult | None:
    """The result for a program that a signal ended, or None for any other exit status."""
    match ended.status:
        case 152:  # SIGXCPU
            return ProgramTestResult(
                verdict="timed_out", reason=f"used {settings.limits.cpu_seconds} s of CPU time"
            )
        case 159:  # SIGSYS
            return ProgramTestResult(verdict="forbidden", reason="made a system call that is not allowed")
        case 137 if ended.seconds >= settings.limits.cpu_seconds:  # it ignored SIGXCPU
            return ProgramTestResult(
                verdict="timed_out", reason=f"used {settings.limits.cpu_seconds} s of CPU time"
            )
        case 137:
            return ProgramTestResult(verdict="memory", reason="killed, probably out of memory")
        case 134 | 135 | 136 | 139:
            return ProgramTestResult(verdict="crashed", reason=f"killed by signal {ended.status - 128}")
        case _:
            return None


def _compare_output(output: bytes, test: ProgramTest, settings: ProgramTestSettings) -> ProgramTestResult:
    if test.input_mode == "stdin":
        text = output.decode(errors="replace")
        same = outputs_match(text, test.expected, settings.compare, settings.tolerance)
        actual = text
    else:
        try:
            value = json.loads(output)
            same = values_match(value, test.expected, settings.tolerance)
        except (ValueError, RecursionError):
            same = False
        actual = output.decode(errors="replace")
    if same:
        return ProgramTestResult(verdict="passed")
    expected = test.expected if isinstance(test.expected, str) else json.dumps(test.expected)
    reason = f"expected {_shorten(expected)}, got {_shorten(actual)}"
    return ProgramTestResult(verdict="wrong", reason=reason)


def _shorten(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...")


def outputs_match(found: str, expected: str, compare: Compare, tolerance: float) -> bool:
    """Whether two outputs are equal: exactly, without trailing white space of lines, or word by word."""
    if compare == "exact":
        return found == expected
    if compare == "lines":
        return _lines(found) == _lines(expected)
    words, expected_words = found.split(), expected.split()
    return len(words) == len(expected_words) and all(
        one == other or (tolerance > 0 and _is_close(_number(one), _number(other), tolerance))
        for one, other in zip(words, expected_words, strict=True)
    )


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def values_match(found: Any, expected: Any, tolerance: float, depth: int = 0) -> bool:
    """Whether two JSON values are equal. A boolean never equals a number; 1 equals 1.0."""
    if depth > _MAX_DEPTH:
        return False
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, int | float) and isinstance(expected, int | float):
        return found == expected or (tolerance > 0 and _is_close(found, expected, tolerance))
    if isinstance(found, list) and isinstance(expected, list | tuple):
        ours, theirs = cast(list[Any], found), cast(Sequence[Any], expected)
        return len(ours) == len(theirs) and all(
            values_match(one, other, tolerance, depth + 1) for one, other in zip(ours, theirs, strict=True)
        )
    if isinstance(found, dict) and isinstance(expected, dict):
        mine, other = cast(dict[str, Any], found), cast(dict[str, Any], expected)
        return mine.keys() == other.keys() and all(
            values_match(mine[key], other[key], tolerance, depth + 1) for key in mine
        )
    return type(found) is type(expected) and found == expected


def _is_close(found: float | None, expected: float | None, tolerance: float) -> bool:
    if found is None or expected is None:
        return False
    try:
        return math.isclose(found, expected, rel_tol=tolerance, abs_tol=tolerance)
    except OverflowError:  # an integer that is too large for a float
        return False
