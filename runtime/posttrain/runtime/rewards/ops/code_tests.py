"""The share of tests that a program passes. It runs in a sandbox and never sees the expected results."""

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.fallbacks import FALLBACK_DESCRIPTION, NumberFallback, fallback_value
from posttrain.runtime.sandbox.languages import LANGUAGE_NAMES
from posttrain.runtime.sandbox.limits import Limits
from posttrain.spec.column_types import Interval
from posttrain.spec.extension import Operand, Params, Ranges, Remark, RewardOp
from posttrain.spec.field_types import checked_by

if TYPE_CHECKING:
    from posttrain.runtime.sandbox.job import Sandbox
    from posttrain.runtime.sandbox.program_tests import ProgramTest, ProgramTestRun, ProgramTestSettings

_MAX_REASON_LENGTH = 500


def _check_language(language: str) -> None:
    if language not in LANGUAGE_NAMES:
        raise ValueError(f"unknown language `{language}`; supported: {', '.join(LANGUAGE_NAMES)}")


class CodeTests(Params):
    language: Annotated[str, checked_by(_check_language)] = Field(
        default="python", description="The programming language."
    )
    score: Literal["share", "all"] = Field(
        default="share",
        description="`share`: the share of tests passed. `all`: 1 if every test passes, else 0.",
    )
    compare: Literal["lines", "exact", "words"] = Field(
        default="lines",
        description="How outputs are compared. `lines` ignores white space at the ends of lines, `exact`"
        " compares every character, `words` compares the words.",
    )
    tolerance: float = Field(
        default=0.0,
        ge=0,
        description="The absolute and relative tolerance for numbers, in results of calls and in outputs"
        " compared by `words`.",
    )
    cpu_seconds: int = Field(
        default=5, ge=1, description="CPU time limit of one test, in seconds. Beyond it the test is failed."
    )
    max_timeouts: int = Field(
        default=3,
        ge=1,
        description="The number of tests beyond the CPU time limit after which the remaining tests are failed"
        " without a run.",
    )
    timeout_seconds: float = Field(
        default=30.0,
        gt=0,
        description="Wall-clock limit of one test, in seconds. Wall-clock time depends on the load of the"
        " machine, so a test beyond it runs once more while no other program runs, and `on_timeout` applies"
        " if it exceeds the limit again.",
    )
    memory_mb: int = Field(
        default=512, ge=64, description="Memory limit of a program with all its processes, in MB."
    )
    processes: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Limit on the processes of a program. With 1 it can start threads, but no processes.",
    )
    disk_mb: int = Field(
        default=0, ge=0, description="Size limit of /tmp, in MB. With 0 it cannot write files."
    )
    output_kb: int = Field(
        default=1024, ge=1, description="Output limit, in kB. A longer output fails the test."
    )
    sandbox: Literal["namespaces", "landlock"] = Field(
        default="namespaces",
        description="The sandbox. `namespaces` uses bubblewrap. `landlock` works where namespaces are not"
        " available, as in many containers. It is weaker, and allows no threads, processes or files.",
    )
    concurrency: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="The number of programs that run at the same time. By default, the number of CPU cores.",
    )
    on_error: NumberFallback = Field(
        default="abstain", description=f"For invalid tests in a row: {FALLBACK_DESCRIPTION}"
    )
    on_timeout: Literal["count", "abstain", "fail"] | float = Field(
        default="abstain",
        description="For a program that exceeds the wall-clock limit twice: `count` counts the test as failed"
        f" although a busy machine may be the cause; {FALLBACK_DESCRIPTION}",
    )

    @property
    def limits(self) -> Limits:
        return Limits(
            seconds=self.timeout_seconds,
            cpu_seconds=self.cpu_seconds,
            memory_mb=self.memory_mb,
            processes=self.processes,
            disk_mb=self.disk_mb,
            output_kb=self.output_kb,
        )


def value_range(params: CodeTests, operands: Ranges) -> Interval:
    whole = Interval(0.0, 1.0)
    for otherwise in (params.on_error, params.on_timeout):
        if not isinstance(otherwise, str):
            whole = whole.join(Interval(otherwise, otherwise))
    return whole


def remarks(params: CodeTests, operands: Ranges) -> Sequence[Remark]:
    conflicts: list[Remark] = []
    if params.sandbox == "landlock":
        for name, enabled in (("processes", params.processes > 1), ("disk_mb", params.disk_mb > 0)):
            if enabled:
                message = "the landlock sandbox allows one process and no files"
                conflicts.append(Remark(kind="refused", message=message, at=(name,)))
    if params.memory_mb < 64 * params.processes:
        message = (
            f"{params.memory_mb} MB is too little memory: each of {params.processes} processes needs 64 MB"
        )
        conflicts.append(Remark(kind="refused", message=message, at=("memory_mb",)))
    if params.tolerance and params.compare == "exact":
        message = "`tolerance` has no effect with `compare: exact`"
        conflicts.append(Remark(kind="refused", message=message, at=("tolerance",)))
    return conflicts


EXTENSION = RewardOp(
    name="code_tests",
    summary="The share of tests that a program passes, from 0 to 1; 0 if there is no program. A test is"
    " {stdin, stdout} or {call, args, expected}; a row has a list of tests, or that list as JSON. Each test"
    " runs in a separate sandboxed process. Results are compared outside the sandbox.",
    params=CodeTests,
    operands={
        "of": Operand(type="text", description="The source code of the program."),
        "tests": Operand(
            type="any", description="The tests of the row: a list of mappings, or that list as JSON."
        ),
    },
    yields="number",
    range=value_range,
    remarks=remarks,
    version=2,
    slow=True,
)


def run(params: CodeTests, operands: Operands, batch: Batch) -> OpResult:
    from posttrain.runtime.sandbox.sandbox_selection import select_sandbox

    rows: list[tuple[str | None, Any]] = list(zip(operands["of"], operands["tests"], strict=True))
    if not any(program is not None for program, _ in rows):
        return OpResult(values=[0.0] * len(rows), reasons=["there is no program"] * len(rows))
    sandbox = select_sandbox(params.sandbox)  # first: no program runs if the sandbox is not available

    def first_run(row: tuple[str | None, Any]) -> _Scoring:
        return _Scoring.start(sandbox, *row, params)

    with ThreadPoolExecutor(_max_workers(params), thread_name_prefix="code") as pool:
        scorings = list(pool.map(first_run, rows))
    # The pool has ended: here a program is alone.
    scores = [one.repeat_undecided(sandbox).score() for one in scorings]
    return OpResult(values=[value for value, _ in scores], reasons=[reason for _, reason in scores])


def _max_workers(params: CodeTests) -> int:
    return params.concurrency or len(os.sched_getaffinity(0))


@dataclass(frozen=True, kw_only=True)
class _Scoring:
    """The score of a row, or a program and its tests as far as they have run."""

    params: CodeTests
    known: tuple[float | None, str] | None = None
    program: str = ""
    tests: "Sequence[ProgramTest]" = ()
    results: "ProgramTestRun | None" = None

    @staticmethod
    def start(sandbox: "Sandbox", program: str | None, row_tests: Any, params: CodeTests) -> "_Scoring":
        from posttrain.runtime.sandbox.program_tests import InvalidTests, read_tests, run_tests

        if program is None:
            return _Scoring(params=params, known=(0.0, "there is no program"))
        try:
            tests = read_tests(row_tests)
        except InvalidTests as error:
            known = fallback_value(params.on_error, str(error)), str(error)
            return _Scoring(params=params, known=known)
        results = run_tests(sandbox, program, tests, _settings(params))
        return _Scoring(params=params, program=program, tests=tests, results=results)

    def repeat_undecided(self, sandbox: "Sandbox") -> "_Scoring":
        """Continue an undecided run while no other program runs."""
        from posttrain.runtime.sandbox.program_tests import run_tests

        if self.results is None or not self.results.count("undecided"):
            return self
        settings = _settings(self.params)
        return replace(
            self, results=run_tests(sandbox, self.program, self.tests, settings, earlier=self.results)
        )

    def score(self) -> tuple[float | None, str]:
        if self.known is not None:
            return self.known
        assert self.results is not None, "a row without a known score has run"
        return _score_results(self.results.results, len(self.tests), self.params)


def _settings(params: CodeTests) -> "ProgramTestSettings":
    from posttrain.runtime.sandbox.languages import load_language
    from posttrain.runtime.sandbox.program_tests import ProgramTestSettings

    return ProgramTestSettings(
        language=load_language(params.language),
        limits=params.limits,
        max_timeouts=params.max_timeouts,
        compare=params.compare,
        tolerance=params.tolerance,
        stop_early=params.score == "all",
        count_undecided=params.on_timeout == "count",
    )


def _score_results(results: Sequence[Any], count: int, params: CodeTests) -> tuple[float | None, str]:
    verdicts = Counter(result.verdict for result in results)
    first = next(((n, result) for n, result in enumerate(results, 1) if result.verdict != "passed"), None)
    reason = f"passed {verdicts['passed']} of {count}"
    if first is not None:
        number, failure = first
        reason = f"{reason}; test {number} {failure.verdict}: {failure.reason}"[:_MAX_REASON_LENGTH]
    if verdicts["undecided"] and params.on_timeout != "count":
        return fallback_value(params.on_timeout, reason), reason
    passed = verdicts["passed"]
    return (passed / count if params.score == "share" else float(passed == count)), reason
