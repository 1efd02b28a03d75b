"""What share of its tests a program passes. It runs in a sandbox, and never sees what is expected of it."""

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.engine.fallbacks import FALLBACK_DESCRIPTION, NumberFallback, fallback_value
from posttrain.runtime.sandbox.languages import LANGUAGE_NAMES
from posttrain.runtime.sandbox.limits import Limits
from posttrain.spec.column_types import Interval
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Params, Ranges, Remark, RewardOp

_MAX_REASON_LENGTH = 500


def _check_language(language: str) -> None:
    if language not in LANGUAGE_NAMES:
        raise ValueError(f"programs can be in: {', '.join(LANGUAGE_NAMES)}")


class CodeTests(Params):
    language: str = field(default="python", check=_check_language, description="The programs' language.")
    score: Literal["share", "all"] = field(
        default="share", description="The share of tests passed; or 1 when all are, else 0."
    )
    compare: Literal["lines", "exact", "words"] = field(
        default="lines",
        description="How outputs are compared: by lines, not minding space at their ends; to the letter;"
        " or word by word.",
    )
    tolerance: float = field(
        default=0.0, ge=0, description="How far numbers may be off: results of calls, and words by `words`."
    )
    timeout_seconds: float = field(default=10.0, gt=0, description="The longest that one test may take.")
    cpu_seconds: int = field(default=5, ge=1, description="The time of a core that one test may use up.")
    total_timeout_seconds: float = field(
        default=60.0, gt=0, description="The longest that all its tests may take."
    )
    memory_mb: int = field(default=512, ge=64, description="Memory of a program, all its processes together.")
    processes: int = field(
        default=1, ge=1, le=64, description="Processes of a program; with 1 it can start none, only threads."
    )
    disk_mb: int = field(default=0, ge=0, description="Room for files in /tmp; with 0 there are none.")
    output_kb: int = field(default=1024, ge=1, description="The longest output; a longer one is wrong.")
    sandbox: Literal["namespaces", "landlock"] = field(
        default="namespaces",
        description="The sandbox: `namespaces` by bubblewrap; `landlock` where these cannot be made, as in"
        " containers: weaker, and without threads, processes and files.",
    )
    concurrency: int | None = field(
        default=None, ge=1, le=256, description="Programs that run at the same time; else as many as cores."
    )
    on_error: NumberFallback = field(
        default="abstain", description=f"For tests that are none: {FALLBACK_DESCRIPTION}"
    )
    on_timeout: Literal["count", "abstain", "fail"] | float = field(
        default="count",
        description="For a program of which a test ran out of time: `count` takes the test as not passed;"
        f" {FALLBACK_DESCRIPTION}",
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
    found: list[Remark] = []
    if params.sandbox == "landlock":
        for name, given in (("processes", params.processes > 1), ("disk_mb", params.disk_mb > 0)):
            if given:
                message = "programs contained by landlock have one process and no files"
                found.append(Remark(kind="refused", message=message, at=(name,)))
    if params.memory_mb < 64 * params.processes:
        message = f"{params.memory_mb} MB do not go round: each of {params.processes} processes needs 64"
        found.append(Remark(kind="refused", message=message, at=("memory_mb",)))
    if params.tolerance and params.compare == "exact":
        message = "outputs compared to the letter know no tolerance"
        found.append(Remark(kind="refused", message=message, at=("tolerance",)))
    return found


EXTENSION = RewardOp(
    name="code_tests",
    summary="The share of its tests that a program passes, from 0 to 1; 0 when there is no program. A test is"
    " {stdin, stdout} or {call, args, expected}; a row has a list of them, or that list as JSON. Programs run"
    " in a sandbox, each test in a process of its own, and what they give is compared outside.",
    params=CodeTests,
    operands={
        "of": Operand(type="text", description="The program, as source text."),
        "tests": Operand(
            type="any", description="The row's tests: a list of mappings, or that list as JSON."
        ),
    },
    yields="number",
    range=value_range,
    remarks=remarks,
    slow=True,
)


def run(params: CodeTests, operands: Operands, batch: Batch) -> OpResult:
    from posttrain.runtime.sandbox.sandbox_selection import select_sandbox

    rows: list[tuple[str | None, Any]] = list(zip(operands["of"], operands["tests"], strict=True))
    if not any(program is not None for program, _ in rows):
        return OpResult(values=[0.0] * len(rows), reasons=["there is no program"] * len(rows))
    contained = select_sandbox(params.sandbox)  # before the first program: none runs where it cannot be made

    def score(row: tuple[str | None, Any]) -> tuple[float | None, str]:
        return _run_tests(contained, *row, params)

    with ThreadPoolExecutor(_max_workers(params), thread_name_prefix="code") as pool:
        found = list(pool.map(score, rows))
    return OpResult(values=[value for value, _ in found], reasons=[reason for _, reason in found])


def _max_workers(params: CodeTests) -> int:
    return params.concurrency or len(os.sched_getaffinity(0))


def _run_tests(
    contained: Any, program: str | None, given: Any, params: CodeTests
) -> tuple[float | None, str]:
    from posttrain.runtime.sandbox.languages import load_language
    from posttrain.runtime.sandbox.program_tests import (
        InvalidTests,
        ProgramTestSettings,
        read_tests,
        run_tests,
    )

    if program is None:
        return 0.0, "there is no program"
    try:
        tests = read_tests(given)
    except InvalidTests as error:
        return fallback_value(params.on_error, str(error)), str(error)
    terms = ProgramTestSettings(
        language=load_language(params.language),
        limits=params.limits,
        seconds=params.total_timeout_seconds,
        compare=params.compare,
        tolerance=params.tolerance,
        stop_early=params.score == "all",
    )
    return _score_results(run_tests(contained, program, tests, terms), len(tests), params)


def _score_results(found: Sequence[Any], count: int, params: CodeTests) -> tuple[float | None, str]:
    verdicts = Counter(one.verdict for one in found)
    first = next(((n, one) for n, one in enumerate(found, 1) if one.verdict != "passed"), None)
    reason = f"passed {verdicts['passed']} of {count}"
    if first is not None:
        number, one = first
        reason = f"{reason}; test {number} {one.verdict}: {one.reason}"[:_MAX_REASON_LENGTH]
    if verdicts["timed_out"] and params.on_timeout != "count":
        return fallback_value(params.on_timeout, reason), reason
    passed = verdicts["passed"]
    return (passed / count if params.score == "share" else float(passed == count)), reason
