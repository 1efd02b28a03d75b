"""The selection of a sandbox: only one that isolates, in which ordinary programs still run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import require_service
from tests.recipe_command import wait_until
from tests.runtime.sandbox.attacks import LIMITS, SEVERAL_PROCESSES
from tests.runtime.sandbox.sandbox_runs import leftover_processes, make_world_readable, run_in_sandbox

from posttrain.runtime import sandbox as sandbox_package
from posttrain.runtime.errors import StepError
from posttrain.runtime.rewards.engine.batch import Batch
from posttrain.runtime.rewards.ops.code_tests import CodeTests, run
from posttrain.runtime.sandbox import sandbox_selection
from posttrain.runtime.sandbox.bubblewrap import Bubblewrap
from posttrain.runtime.sandbox.job import Sandbox
from posttrain.runtime.sandbox.limits import Limits
from posttrain.runtime.sandbox.sandbox_selection import select_sandbox
from posttrain.runtime.sandbox.seccomp import Policy, UnsupportedMachine, compile_filter
from posttrain.runtime.sandbox.syscalls import SYSCALL_NUMBERS

_THREADS = """
    import threading
    found = []
    threads = [threading.Thread(target=found.append, args=(n,)) for n in range(20)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(len(found))
"""


def test_an_ordinary_program_passes(sandbox: Sandbox):
    program = "import heapq, math, collections, json, re, decimal, asyncio\nprint(int(input()) * 2)"
    assert run_in_sandbox(sandbox, program, {"stdin": "21\n", "stdout": "42"}, LIMITS)[1].verdict == "passed"


def test_a_function_is_called(sandbox: Sandbox):
    program = (
        "class Solution:\n    def add(self, a, b=1):\n        print('noise')\n        return {a: (a, b)}"
    )
    test = {"call": "Solution.add", "args": [1], "kwargs": {"b": 2}, "expected": {"1": [1, 2]}}
    assert run_in_sandbox(sandbox, program, test, LIMITS)[1].verdict == "passed"


def test_a_set_has_the_same_order_every_time(sandbox: Sandbox):
    program = "print({f'word {n}' for n in range(20)})"
    outputs = {run_in_sandbox(sandbox, program, {"stdout": ""}, LIMITS)[0].output for _ in range(3)}
    assert len(outputs) == 1


@pytest.mark.parametrize("program", ["import numpy", "import posttrain"])
def test_our_packages_are_not_there(program: str, sandbox: Sandbox):
    found = run_in_sandbox(sandbox, program, {"stdout": ""}, LIMITS)[1]
    assert found.verdict == "crashed"
    assert "ModuleNotFoundError" in found.reason


def test_landlock_allows_less(sandbox: Sandbox):
    """Threads, processes and files are allowed only where the sandbox can limit them."""
    counting = isinstance(sandbox, Bubblewrap) and sandbox.counts_processes
    threads = run_in_sandbox(sandbox, _THREADS, {"stdout": "20"}, LIMITS)[1]
    forks = run_in_sandbox(
        sandbox, "import os\nif os.fork(): os.wait(); print(1)", {"stdout": "1"}, SEVERAL_PROCESSES
    )[1]
    assert threads.verdict == ("passed" if counting else "crashed")
    assert forks.verdict == ("passed" if counting else "forbidden")
    program = "open('/tmp/x', 'w').write('hello')\nprint(open('/tmp/x').read())"
    room = Limits(disk_mb=1, seconds=30)
    files = run_in_sandbox(sandbox, program, {"stdout": "hello"}, room)[1]
    assert files.verdict == ("passed" if isinstance(sandbox, Bubblewrap) else "crashed")


@pytest.mark.usefixtures("bubblewrap")
def test_without_bubblewrap_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    select_sandbox.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    trace = tmp_path / "ran"
    operands = {"of": [f"open({str(trace)!r}, 'w')"], "tests": [[{"stdout": ""}]]}
    with pytest.raises(StepError, match="bwrap is not installed") as raised:
        run(CodeTests(), operands, Batch(count=1))
    assert "apt-get install bubblewrap" in raised.value.advice
    assert not trace.exists()
    select_sandbox.cache_clear()


def test_a_sandbox_that_leaks_is_not_used(monkeypatch: pytest.MonkeyPatch, bubblewrap: Path):
    select_sandbox.cache_clear()
    monkeypatch.setattr("posttrain.runtime.sandbox.bubblewrap._readonly_bind", lambda _: ["--bind", "/", "/"])
    with pytest.raises(StepError, match="files of the host are readable") as raised:
        select_sandbox("namespaces")
    assert "landlock" in raised.value.advice
    select_sandbox.cache_clear()


def test_a_filter_that_lets_through_is_noticed(monkeypatch: pytest.MonkeyPatch, bubblewrap: Path):
    select_sandbox.cache_clear()
    everything = Policy(processes=True)
    monkeypatch.setattr("posttrain.runtime.sandbox.bubblewrap.Policy", lambda **_: everything)
    with pytest.raises(StepError, match="a program can start processes"):
        select_sandbox("namespaces")
    select_sandbox.cache_clear()


def test_no_landlock_in_the_kernel(monkeypatch: pytest.MonkeyPatch):
    select_sandbox.cache_clear()
    monkeypatch.setattr(sandbox_selection, "landlock_abi_version", lambda: 0)
    with pytest.raises(StepError, match="the kernel does not have Landlock"):
        select_sandbox("landlock")
    select_sandbox.cache_clear()


def test_a_client_that_is_killed_takes_its_programs_along(sandbox: Sandbox):
    """When the runner is killed, its sleeping program ends, too."""
    kind = repr(sandbox)
    code = f"""
from tests.runtime.sandbox.sandbox_runs import run_in_sandbox
from posttrain.runtime.sandbox.bubblewrap import Bubblewrap
from posttrain.runtime.sandbox.landlock import Landlock
from posttrain.runtime.sandbox.limits import Limits
print('started', flush=True)
run_in_sandbox({kind}, "import time; time.sleep(600)", {{"stdout": ""}}, Limits(seconds=600))
"""
    root = Path(__file__).parents[3]
    client = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=root)
    assert client.stdout is not None
    client.stdout.readline()
    wait_until(lambda: _runs_below(client.pid), "the start of the program", client)
    client.kill()
    client.wait()
    client.stdout.close()
    assert leftover_processes() == []


def _runs_below(pid: int) -> bool:
    """Whether a descendant of this process runs the program."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            inside = b"/program.py\0" in (folder / "cmdline").read_bytes()
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        while inside and int(stat[1]) > 1:
            if int(stat[1]) == pid:
                return True
            stat = Path(f"/proc/{stat[1]}/stat").read_text().rpartition(")")[2].split()
    return False


OTHER_USER_PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from posttrain.runtime.sandbox.sandbox_selection import select_sandbox
from posttrain.runtime.sandbox.job import Job
from posttrain.runtime.sandbox.languages import load_language
from posttrain.runtime.sandbox.limits import Limits
from posttrain.runtime.sandbox.process_runner import run
found = {}
for name, program, processes in json.loads(sys.argv[2]):
    limits = Limits(seconds=2, cpu_seconds=1, processes=processes)
    job = Job(language=load_language("python"), program=program.encode(), limits=limits)
    ended = run(select_sandbox("namespaces"), job)
    found[name] = [ended.outcome, ended.status, ended.output.decode()]
print(json.dumps(found))
"""


@pytest.mark.usefixtures("bubblewrap")
def test_as_a_user_without_rights(tmp_path_factory: pytest.TempPathFactory):
    """An unprivileged user creates the sandbox, with a Python that this user can run."""
    require_service("root, to switch to another user", os.getuid() == 0 or None, "run the tests as root")
    python = require_service(
        "a Python for all users", _world_python(), "apt-get install python3 (3.11 or later)"
    )
    copy = tmp_path_factory.mktemp("another")
    make_world_readable(copy)
    package = copy / "posttrain" / "runtime"
    shutil.copytree(Path(sandbox_package.__path__[0]), package / "sandbox")
    for name in ("errors.py", "user_errors.py"):
        shutil.copy(Path(sandbox_package.__path__[0]).parent / name, package)
    forks = "import os\nn = 0\nwhile True:\n    try: os.fork()\n    except OSError: os._exit(7)"
    counted = (
        "import threading, time\nn = 0\ntry:\n    while True:\n        threading.Thread(target=time.sleep,"
    )
    counted += " args=(9,), daemon=True).start()\n        n += 1\nexcept RuntimeError:\n    print(n)"
    programs = [["forks", forks, 4], ["threads", counted, 1], ["fine", "print(6 * 7)", 1]]
    command = [python, "-c", OTHER_USER_PROGRAM, str(copy), json.dumps(programs)]
    ended = subprocess.run(
        command,
        user=54321,
        group=54321,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["forks"][:2] == ["exited", 7]
    assert found["threads"] == ["exited", 0, "32\n"]
    assert found["fine"] == ["exited", 0, "42\n"]
    assert leftover_processes() == []


def _world_python() -> str | None:
    for name in ("/usr/bin/python3", "/usr/local/bin/python3"):
        code = "import sys; sys.exit(sys.version_info < (3, 11))"
        if Path(name).exists() and subprocess.run([name, "-c", code], check=False).returncode == 0:
            return name
    return None


def test_the_numbers_of_calls_are_the_kernels():
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    generic = Path("/usr/include/asm-generic/unistd.h")
    require_service(
        "the kernel's headers",
        (header.exists() and generic.exists()) or None,
        "apt-get install linux-libc-dev",
    )
    for path, machine, prefixes in (
        (header, "x86_64", ("__NR_",)),
        (generic, "aarch64", ("__NR_", "__NR3264_")),
    ):
        known: dict[str, int] = {}
        for line in path.read_text().splitlines():
            fields = line.split()
            for prefix in prefixes:
                defined = len(fields) > 2 and fields[0] == "#define" and fields[2].isdigit()
                if defined and fields[1].startswith(prefix):
                    known.setdefault(fields[1].removeprefix(prefix), int(fields[2]))
        known["newfstatat"] = known.get("newfstatat", known.get("fstatat", 0))
        ours = {name: numbers[machine] for name, numbers in SYSCALL_NUMBERS.items() if name in known}
        assert len(ours) > 200
        assert ours == {name: known[name] for name in ours}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_jump_of_a_filter_is_too_far(machine: str):
    for policy in (Policy(), Policy(processes=True), Policy(threads=False, own_pid=77)):
        codes = compile_filter(policy, machine)
        assert len(codes) % 8 == 0
        assert len(codes) // 8 < 4096


def test_a_machine_that_is_not_known():
    with pytest.raises(UnsupportedMachine, match="riscv64"):
        compile_filter(Policy(), "riscv64")


def test_no_descriptor_leads_out(sandbox: Sandbox):
    """A program has only the three standard descriptors, and cannot write to its input."""
    program = """
        import fcntl, os
        found = []
        for number in range(64):
            try:
                fcntl.fcntl(number, fcntl.F_GETFD)
                found.append(number)
            except OSError:
                pass
        try:
            os.write(0, b'more')
        except OSError:
            print(found)
    """
    assert (
        run_in_sandbox(sandbox, program, {"stdin": "x", "stdout": "[0, 1, 2]"}, LIMITS)[1].verdict == "passed"
    )


def test_it_has_no_rights(sandbox: Sandbox):
    """The program has no capabilities and cannot gain any, even as root, and the filter is active."""
    program = """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        data = (ctypes.c_uint32 * 6)()
        libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), data)
        print(list(data), libc.prctl(39, 0, 0, 0, 0), libc.prctl(21))
    """
    test = {"stdout": "[0, 0, 0, 0, 0, 0] 1 2"}
    assert run_in_sandbox(sandbox, program, test, LIMITS)[1].verdict == "passed"
