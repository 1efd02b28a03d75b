"""Attacks on the sandbox: each has the expected verdict and leaves no files or processes behind."""

import platform
import re
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.conftest import require_service
from tests.runtime.sandbox.attacks import ATTACKS, LIMITS, Attack, attack_table
from tests.runtime.sandbox.sandbox_runs import leftover_processes, make_world_readable, run_in_sandbox

from posttrain.runtime.sandbox.job import Sandbox
from posttrain.runtime.sandbox.limits import RunResult
from posttrain.runtime.sandbox.program_tests import ProgramTestResult
from posttrain.runtime.sandbox.syscalls import SYSCALL_NUMBERS

DOCS = Path(__file__).parents[3] / "docs" / "sandbox.md"
_ANSWER = "an answer that only the test knows"
_SECRET = "a secret of the host"


@dataclass(frozen=True)
class AttackResults:
    """The result of every attack in one sandbox, and the files and processes left behind."""

    found: dict[str, tuple[RunResult, ProgramTestResult]]
    canary: Path
    processes: list[str]
    files: list[str]


@pytest.fixture(scope="module")
def attack_results(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> AttackResults:
    """Run all attacks on one sandbox concurrently. The canary is a file that all users can read and write."""
    folder = tmp_path_factory.mktemp("attacks")
    make_world_readable(folder)
    canary = folder / "canary"
    canary.write_text(_SECRET)
    canary.chmod(0o666)
    before = set(Path(tempfile.gettempdir()).iterdir())
    attacks = [attack for attack in ATTACKS if attack.verdict_in(sandbox) is not None]
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(4) as pool:
        patch.setenv("POSTTRAIN_TEST_SECRET", _SECRET)
        found = list(pool.map(lambda attack: _run_attack(sandbox, attack, canary), attacks))
    left = [path.name for path in set(Path(tempfile.gettempdir()).iterdir()) - before]
    return AttackResults(
        found={attack.name: one for attack, one in zip(attacks, found, strict=True)},
        canary=canary,
        processes=leftover_processes(),
        files=[name for name in left if name.startswith("posttrain-sandbox") or name in ("link", "filler")],
    )


def _run_attack(sandbox: Sandbox, attack: Attack, canary: Path) -> tuple[RunResult, ProgramTestResult]:
    test = {"stdin": f"{canary}\n", "stdout": _ANSWER}
    if attack.call:
        test = {**attack.call, "expected": _ANSWER}
    return run_in_sandbox(sandbox, _fill_syscall_numbers(attack.program), test, attack.limits)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_is_contained(attack: Attack, sandbox: Sandbox, attack_results: AttackResults):
    expected = attack.verdict_in(sandbox)
    if expected is None:
        return  # this sandbox does not allow the limits of the attack: see test_sandbox_selection.py
    ended, found = attack_results.found[attack.name]
    assert found.verdict == expected, (found, ended)
    assert _SECRET.encode() not in ended.output + ended.errors
    assert _ANSWER.encode() not in ended.output + ended.errors


def test_nothing_is_left_of_them(attack_results: AttackResults):
    assert attack_results.processes == []
    assert attack_results.files == []
    assert attack_results.canary.read_text() == _SECRET
    assert attack_results.canary.stat().st_mode & 0o777 == 0o666


def _fill_syscall_numbers(program: str) -> str:
    machine = platform.machine()
    return re.sub(
        r"NUMBER_(\w+)", lambda match: str(SYSCALL_NUMBERS[match[1]][machine]), textwrap.dedent(program)
    )


def test_calls_by_another_numbering(sandbox: Sandbox):
    """The 32-bit system calls of x86-64, through their instruction, and those of the x32 ABI."""
    require_service("x86-64", platform.machine() == "x86_64" or None, "run this test on x86-64")
    by_instruction = """
        import ctypes, mmap
        room = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        room.write(bytes.fromhex("b814000000cd80c3"))
        address = ctypes.addressof(ctypes.c_char.from_buffer(room))
        print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())
    """
    by_number = "import ctypes\nprint(ctypes.CDLL(None).syscall(0x40000000 + 39))"
    for program in (by_instruction, by_number):
        _, found = run_in_sandbox(sandbox, program, {"stdout": _ANSWER}, LIMITS)
        assert found.verdict == "forbidden"


def test_the_documentation_shows_these_attacks(pytestconfig: pytest.Config):
    text = DOCS.read_text()
    before, _, rest = text.partition("<!-- attacks -->\n")
    shown, _, after = rest.partition("<!-- end -->\n")
    if pytestconfig.getoption("--regenerate"):
        DOCS.write_text(f"{before}<!-- attacks -->\n{attack_table()}<!-- end -->\n{after}")
        return
    assert shown == attack_table()
