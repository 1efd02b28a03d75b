"""Runs programs in a sandbox, and finds processes that they leave behind."""

import os
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posttrain.runtime.sandbox.job import Job, Sandbox
from posttrain.runtime.sandbox.languages import load_language
from posttrain.runtime.sandbox.limits import Limits, RunResult
from posttrain.runtime.sandbox.process_runner import run
from posttrain.runtime.sandbox.program_tests import (
    ProgramTestResult,
    ProgramTestSettings,
    judge_run,
    read_tests,
)


def run_in_sandbox(
    sandbox: Sandbox, program: str, test: dict[str, Any], limits: Limits, **settings: Any
) -> tuple[RunResult, ProgramTestResult]:
    """Run a program on one test. Return the result of the run and that of the test."""
    (parsed,) = read_tests([test])
    job = Job(
        language=load_language("python"),
        program=textwrap.dedent(program).encode(),
        input_mode=parsed.input_mode,
        input=parsed.input,
        limits=limits,
    )
    ended = run(sandbox, job)
    return ended, judge_run(
        ended, parsed, ProgramTestSettings(language=job.language, limits=limits, **settings)
    )


def make_world_readable(folder: Path) -> None:
    """Allow other users to read a folder of the test."""
    top = Path(tempfile.gettempdir())
    for path in (folder, *folder.parents):
        if top in path.parents:
            path.chmod(0o755)


def leftover_processes() -> list[str]:
    """Processes of sandboxes that are orphans or descendants of this process."""
    end = time.monotonic() + 5
    while (found := list(_sandbox_processes())) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def _sandbox_processes() -> Iterator[str]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            above = list(_ancestors(int(folder.name)))
        except OSError:
            continue
        inside = "/program.py " in command or "bwrap" in command.split(" ")[0]
        if inside and (os.getpid() in above or above == [1]):
            yield command


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pid = int(fields[1])
        yield pid
