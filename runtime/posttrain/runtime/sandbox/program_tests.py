"""A program's tests. What it gave comes back as bytes, and is compared here, where it has no say."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from posttrain.runtime.errors import StepError
from posttrain.runtime.sandbox.job import Job, Sandbox
from posttrain.runtime.sandbox.languages import InputMode, Language
from posttrain.runtime.sandbox.limits import Limits, RunResult, Verdict
from posttrain.runtime.sandbox.process_runner import run

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
    """How programs are run and judged."""

    language: Language
    limits: Limits
    # All tests of a program together.
    seconds: float = 60.0
    compare: Compare = "lines"
    tolerance: float = 0.0
    # Whether one test that is not passed settles the matter.
    stop_early: bool = False


@dataclass(frozen=True, kw_only=True)
class ProgramTestResult:
    verdict: Verdict
    reason: str = ""


class InvalidTests(Exception):
    """What should be tests cannot be read as such."""


def read_tests(given: Any) -> list[ProgramTest]:
    """The tests of a row: a list of {stdin, stdout} or {call, args, expected}, or that as JSON."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise InvalidTests(f"the tests are no JSON: {error}") from None
    if not isinstance(given, list | tuple) or not given:
        raise InvalidTests("the tests are no list, or an empty one")
    return [_parse_test(one, number) for number, one in enumerate(cast(Sequence[Any], given), 1)]


def _parse_test(given: Any, number: int) -> ProgramTest:
    if isinstance(given, Mapping):
        # A table fills the keys that some of its rows do not have with nulls.
        told = {key: value for key, value in cast(Mapping[str, Any], given).items() if value is not None}
        if isinstance(told.get("call"), str) and "expected" in given and told.keys() <= _CALL_KEYS:
            asked = {"call": told["call"], "args": told.get("args", []), "kwargs": told.get("kwargs", {})}
            if isinstance(asked["args"], list) and isinstance(asked["kwargs"], dict):
                return ProgramTest(
                    input_mode="call", input=json.dumps(asked).encode(), expected=told.get("expected")
                )
        elif told.keys() <= {"stdin", "stdout"} and isinstance(told.get("stdout"), str):
            stdin = told.get("stdin", "")
            if isinstance(stdin, str):
                return ProgramTest(input_mode="stdin", input=stdin.encode(), expected=told["stdout"])
    raise InvalidTests(f"test {number} is neither {{stdin, stdout}} nor {{call, args, expected}}")


def run_tests(
    box: Sandbox, program: str, tests: Sequence[ProgramTest], terms: ProgramTestSettings
) -> list[ProgramTestResult]:
    """What became of each test, in order; fewer when the rest cannot change anything."""
    found: list[ProgramTestResult] = []
    end = time.monotonic() + terms.seconds
    for test in tests:
        left = end - time.monotonic()
        if left <= 0:
            found.append(
                ProgramTestResult(verdict="timed_out", reason=f"all tests together took {terms.seconds:g} s")
            )
            continue
        job = Job(
            language=terms.language,
            program=program.encode(errors="surrogatepass"),
            input_mode=test.input_mode,
            input=test.input,
            limits=replace(terms.limits, seconds=min(left, terms.limits.seconds)),
        )
        ended = run(box, job)
        found.append(judge_run(ended, test, terms))
        if terms.language.fails_for_every_input(ended):
            return found + [found[-1]] * (len(tests) - len(found))
        if terms.stop_early and found[-1].verdict != "passed":
            break
    return found


def judge_run(ended: RunResult, test: ProgramTest, terms: ProgramTestSettings) -> ProgramTestResult:
    """What a run amounts to."""
    limits = terms.limits
    if ended.outcome == "not started":
        said = ended.last_error_line or f"status {ended.status}"
        raise StepError(f"the sandbox does not start: {said}", "see docs/sandbox.md", retriable=True)
    if ended.outcome == "late":
        return ProgramTestResult(verdict="timed_out", reason=f"took longer than {limits.seconds:g} s")
    if ended.outcome == "overflowed":
        return ProgramTestResult(verdict="wrong", reason=f"wrote more than {limits.output_kb} KiB")
    if ended.status:
        return _signal_result(ended, terms) or ProgramTestResult(
            **_result_fields(terms.language.describe_failure(ended))
        )
    return _compare_output(ended.output, test, terms)


def _result_fields(fault: tuple[Verdict, str]) -> dict[str, Any]:
    return {"verdict": fault[0], "reason": fault[1]}


def _signal_result(ended: RunResult, terms: ProgramTestSettings) -> ProgramTestResult | None:
    """What a signal means that ended the program."""
    match ended.status:
        case 152:  # SIGXCPU
            return ProgramTestResult(
                verdict="timed_out", reason=f"used up {terms.limits.cpu_seconds} s of a core"
            )
        case 159:  # SIGSYS
            return ProgramTestResult(verdict="forbidden", reason="made a system call that is not allowed")
        case 137 if ended.seconds >= terms.limits.cpu_seconds:  # it did not heed SIGXCPU
            return ProgramTestResult(
                verdict="timed_out", reason=f"used up {terms.limits.cpu_seconds} s of a core"
            )
        case 137:
            return ProgramTestResult(verdict="memory", reason="killed, as when memory is short")
        case 134 | 135 | 136 | 139:
            return ProgramTestResult(verdict="crashed", reason=f"ended by signal {ended.status - 128}")
        case _:
            return None


def _compare_output(output: bytes, test: ProgramTest, terms: ProgramTestSettings) -> ProgramTestResult:
    if test.input_mode == "stdin":
        text = output.decode(errors="replace")
        same = outputs_match(text, test.expected, terms.compare, terms.tolerance)
        shown = text
    else:
        try:
            value = json.loads(output)
            same = values_match(value, test.expected, terms.tolerance)
        except (ValueError, RecursionError):
            same = False
        shown = output.decode(errors="replace")
    if same:
        return ProgramTestResult(verdict="passed")
    expected = test.expected if isinstance(test.expected, str) else json.dumps(test.expected)
    return ProgramTestResult(verdict="wrong", reason=f"gave {_shorten(shown)}, not {_shorten(expected)}")


def _shorten(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...")


def outputs_match(found: str, expected: str, compare: Compare, tolerance: float) -> bool:
    """Whether two outputs are the same: to the letter, but for space at ends of lines, or word by word."""
    if compare == "exact":
        return found == expected
    if compare == "lines":
        return _lines(found) == _lines(expected)
    words, wanted = found.split(), expected.split()
    return len(words) == len(wanted) and all(
        one == other or (tolerance > 0 and _is_close(_number(one), _number(other), tolerance))
        for one, other in zip(words, wanted, strict=True)
    )


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def values_match(found: Any, expected: Any, tolerance: float, depth: int = 0) -> bool:
    """Whether two values of JSON are the same. A truth is no number; 1 and 1.0 are one number."""
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
    except OverflowError:  # an integer beyond every float
        return False
