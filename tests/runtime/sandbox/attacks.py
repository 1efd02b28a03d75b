"""Attacks on the sandbox, and the defense that stops each. `docs/sandbox.md` shows this list.

Every program reads the path of a file of the host from its first line of input. None of them can pass,
because only the test has the expected output.
"""

from dataclasses import dataclass
from typing import Any

from posttrain.runtime.sandbox.bubblewrap import Bubblewrap
from posttrain.runtime.sandbox.job import Sandbox
from posttrain.runtime.sandbox.limits import Limits, Verdict

LIMITS = Limits(seconds=30.0, cpu_seconds=20, memory_mb=256, output_kb=256)
SHORT_TIME = Limits(seconds=30.0, cpu_seconds=1, memory_mb=256)
SHORT_WALL_TIME = Limits(seconds=1.0, cpu_seconds=20, memory_mb=256)
SEVERAL_PROCESSES = Limits(seconds=1.0, cpu_seconds=1, memory_mb=512, processes=8)
DISK_SPACE = Limits(seconds=30.0, cpu_seconds=20, memory_mb=256, disk_mb=8)


@dataclass(frozen=True, kw_only=True)
class Attack:
    group: str
    name: str
    program: str
    # The verdict with namespaces, and with Landlock if it differs. None if Landlock forbids the limits.
    verdict: Verdict
    landlock: Verdict | None = "passed"  # a placeholder for the same verdict
    stopped_by: str
    limits: Limits = LIMITS
    call: dict[str, Any] | None = None

    def verdict_in(self, sandbox: Sandbox) -> Verdict | None:
        if isinstance(sandbox, Bubblewrap):
            return None if self.limits.processes > 1 and not sandbox.counts_processes else self.verdict
        return self.landlock_verdict

    @property
    def landlock_verdict(self) -> Verdict | None:
        return self.verdict if self.landlock == "passed" else self.landlock


_CALL = {"call": "f", "args": [1]}
_SYSCALL_PRELUDE = "import ctypes\ncall = ctypes.CDLL(None, use_errno=True).syscall\n"


def _syscall_program(name: str, arguments: str = "0, 0, 0, 0, 0") -> str:
    """A program that calls a system call by its number."""
    return f"{_SYSCALL_PRELUDE}print(call(NUMBER_{name}, {arguments}))"


PROCESSES = [
    Attack(
        group="Processes",
        name="fork bomb",
        program="import os\nwhile True:\n    os.fork()",
        verdict="forbidden",
        stopped_by="the seccomp filter: a program has one process",
    ),
    Attack(
        group="Processes",
        name="fork bomb, where several processes are allowed",
        program="""
            import os
            while True:
                try:
                    os.fork()
                except OSError:
                    pass
        """,
        limits=SEVERAL_PROCESSES,
        verdict="undecided",
        landlock=None,
        stopped_by="the limits on processes and time; the end of the sandbox, which kills all its processes",
    ),
    Attack(
        group="Processes",
        name="thread bomb",
        program="""
            import threading, time
            while True:
                threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        """,
        verdict="crashed",
        stopped_by="the thread limit",
    ),
    Attack(
        group="Processes",
        name="daemon process",
        program="""
            import os, time
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(600)
                os._exit(0)
        """,
        verdict="forbidden",
        stopped_by="the filter",
    ),
    Attack(
        group="Processes",
        name="daemon process, where several processes are allowed",
        program="""
            import os, time
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    for descriptor in range(3):
                        os.close(descriptor)
                    time.sleep(600)
                os._exit(0)
        """,
        limits=SEVERAL_PROCESSES,
        verdict="wrong",
        landlock=None,
        stopped_by="the end of the sandbox, which kills all its processes",
    ),
    Attack(
        group="Processes",
        name="execute another program",
        program="import os\nos.execv('/bin/sh', ['sh', '-c', 'cat /etc/shadow; sleep 600 & id; id'])",
        verdict="forbidden",
        stopped_by="the filter, which stays active after exec",
    ),
    Attack(
        group="Processes",
        name="a shell command",
        program="import subprocess\nprint(subprocess.run('id', shell=True))",
        verdict="forbidden",
        stopped_by="the filter",
    ),
    Attack(
        group="Processes",
        name="kill the parent",
        program="""
            import os, signal
            try:
                os.kill(os.getppid(), signal.SIGKILL)
            except OSError:
                pass
            print('still here')
        """,
        verdict="wrong",
        landlock="forbidden",
        stopped_by="its parent is the first process of the sandbox, which ignores the signal; or the filter",
    ),
    Attack(
        group="Processes",
        name="kill all processes",
        program="import os, signal\nos.kill(-1, signal.SIGKILL)",
        verdict="crashed",
        landlock="forbidden",
        stopped_by="the sandbox has no other processes; or the filter",
    ),
    Attack(
        group="Processes",
        name="send signals to the parent through a file",
        program="""
            import fcntl, os, signal
            reads, writes = os.pipe()
            fcntl.fcntl(reads, fcntl.F_SETOWN, os.getppid())
            fcntl.fcntl(reads, 10, signal.SIGKILL)
            fcntl.fcntl(reads, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
            os.write(writes, b'1')
        """,
        verdict="wrong",
        landlock="forbidden",
        stopped_by="its parent is the first process of the sandbox; or the filter",
    ),
    Attack(
        group="Processes",
        name="lower the limits of the parent",
        program="""
            import os, resource
            try:
                resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))
            except OSError:
                pass
        """,
        verdict="wrong",
        landlock="forbidden",
        stopped_by="its parent is the first process of the sandbox; or the filter",
    ),
]

TIME = [
    Attack(
        group="Time",
        name="endless loop that ignores signals",
        program="""
            import signal
            for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(number, signal.SIG_IGN)
            while True:
                pass
        """,
        limits=SHORT_TIME,
        verdict="timed_out",
        stopped_by="the limit on CPU time, which sends SIGKILL after SIGXCPU",
    ),
    Attack(
        group="Time",
        name="sleep",
        program="import time\ntime.sleep(600)",
        limits=SHORT_WALL_TIME,
        verdict="undecided",
        stopped_by="the limit on wall-clock time",
    ),
    Attack(
        group="Time",
        name="stop itself",
        program="import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        limits=SHORT_WALL_TIME,
        verdict="undecided",
        stopped_by="the limit on wall-clock time",
    ),
    Attack(
        group="Time",
        name="close every descriptor and wait",
        program="import os, time\nos.closerange(0, 64)\ntime.sleep(600)",
        limits=SHORT_WALL_TIME,
        verdict="undecided",
        stopped_by="the limit on wall-clock time",
    ),
    Attack(
        group="Time",
        name="read standard input in an endless loop",
        program="import sys\nwhile True:\n    sys.stdin.read()",
        limits=SHORT_TIME,
        verdict="timed_out",
        stopped_by="the input is a file with an end; then the limit on CPU time",
    ),
    Attack(
        group="Time",
        name="source code that is slow to compile",
        program="x = " + "(" * 50_000 + ")" * 50_000,
        verdict="crashed",
        stopped_by="it compiles inside the sandbox",
    ),
]

MEMORY = [
    Attack(
        group="Memory",
        name="memory bomb",
        program="chunks = []\nwhile True:\n    chunks.append(bytearray(1 << 20))",
        verdict="memory",
        stopped_by="the memory limit",
    ),
    Attack(
        group="Memory",
        name="one huge allocation",
        program="bytearray(1 << 42)",
        verdict="memory",
        stopped_by="the memory limit",
    ),
    Attack(
        group="Memory",
        name="memory as an anonymous file",
        program="import os\nos.ftruncate(os.memfd_create('hoard'), 1 << 40)",
        verdict="crashed",
        stopped_by="the filter: the system call fails with ENOSYS",
    ),
    Attack(
        group="Memory",
        name="persistent shared memory",
        program=_syscall_program("shmget", "0, 1 << 30, 0o1600"),
        verdict="forbidden",
        stopped_by="the filter",
    ),
    Attack(
        group="Memory",
        name="deep recursion",
        program="def f(n):\n    return f(n + 1)\nf(0)",
        verdict="crashed",
        stopped_by="the recursion limit of Python",
    ),
    Attack(
        group="Memory",
        name="deep recursion without Python's limit",
        program="""
            import sys
            sys.setrecursionlimit(10**9)
            class Deep:
                def __repr__(self):
                    return repr(self)
            repr(Deep())
        """,
        verdict="crashed",
        stopped_by="the limit on the stack size",
    ),
    Attack(
        group="Memory",
        name="raise the limits",
        program="import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        verdict="crashed",
        stopped_by="only root can raise limits",
    ),
]

DISK = [
    Attack(
        group="Disk",
        name="disk filler",
        program="""
            import os
            for place in ('.', '/tmp', '/dev/shm', '/var/tmp', '/usr', '/'):
                try:
                    file = open(os.path.join(place, 'filler'), 'wb')
                except OSError as error:
                    refused = error
                else:
                    while True:
                        file.write(bytes(1 << 20))
            raise refused
        """,
        verdict="crashed",
        stopped_by="the file system is read-only",
    ),
    Attack(
        group="Disk",
        name="disk filler, where files are allowed",
        program="""
            for number in range(100):
                with open(f'/tmp/filler-{number}', 'wb') as file:
                    file.write(bytes(1 << 20))
        """,
        limits=DISK_SPACE,
        verdict="crashed",
        landlock=None,
        stopped_by="the size limit of the sandbox's /tmp, a tmpfs that ends with it",
    ),
    Attack(
        group="Disk",
        name="symbolic links out of the sandbox",
        program="""
            import os
            canary = input()
            os.symlink(canary, '/tmp/link')
            open('/tmp/link', 'w').write('gotcha')
        """,
        limits=DISK_SPACE,
        verdict="crashed",
        landlock=None,
        stopped_by="the link resolves inside the sandbox",
    ),
    Attack(
        group="Disk",
        name="replace its own file by a symbolic link",
        program="import os\nos.unlink(__file__)\nos.symlink(input(), __file__)",
        verdict="crashed",
        stopped_by="the file system is read-only",
    ),
    Attack(
        group="Disk",
        name="write to a file of the host",
        program="open(input(), 'w').write('gotcha')",
        verdict="crashed",
        stopped_by="the file is not in the sandbox; or Landlock",
    ),
    Attack(
        group="Disk",
        name="remove the permissions of a file",
        program="import os\nos.chmod(input(), 0)",
        verdict="crashed",
        stopped_by="the file is not in the sandbox; or the filter",
    ),
]

SECRETS = [
    Attack(
        group="Secrets",
        name="read a file of the host",
        program="print(open(input()).read())",
        verdict="crashed",
        stopped_by="the file is not in the sandbox; or Landlock",
    ),
    Attack(
        group="Secrets",
        name="read /etc/shadow, /etc/passwd, home folders",
        program="""
            import os
            for path in ('/etc/shadow', '/etc/passwd', os.path.expanduser('~root'), '/home', '/var/run'):
                try:
                    print(os.listdir(path) if os.path.isdir(path) else open(path).read())
                except OSError as error:
                    refused = error
            raise refused
        """,
        verdict="crashed",
        stopped_by="the files are not in the sandbox; or Landlock",
    ),
    Attack(
        group="Secrets",
        name="read the environment variables of the host",
        program="import os\nprint(dict(os.environ))",
        verdict="wrong",
        stopped_by="the program has a separate environment",
    ),
    Attack(
        group="Secrets",
        name="read the environment, memory or root folder of another process",
        program="""
            import glob
            for path in glob.glob('/proc/*/environ') + ['/proc/self/mem', '/proc/1/root/etc/passwd']:
                try:
                    print(open(path, 'rb').read())
                except OSError as error:
                    refused = error
            raise refused
        """,
        verdict="crashed",
        stopped_by="the sandbox has no /proc; or Landlock",
    ),
    Attack(
        group="Secrets",
        name="connect to the network",
        program="import socket\nsocket.create_connection(('1.1.1.1', 53), timeout=1)",
        verdict="forbidden",
        stopped_by="the filter; and the sandbox has no network",
    ),
    Attack(
        group="Secrets",
        name="resolve a host name",
        program="import socket\nprint(socket.getaddrinfo('localhost', 80))",
        verdict="forbidden",
        stopped_by="the filter",
    ),
    Attack(
        group="Secrets",
        name="connect to a Unix socket of the host",
        program="""
            import socket
            socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')
        """,
        verdict="crashed",
        stopped_by="the filter",
    ),
]

ANSWERS = [
    Attack(
        group="Answers",
        name="return an object that equals everything",
        program="""
            class Same:
                def __eq__(self, other):
                    return True
            def f(x):
                return Same()
        """,
        call=_CALL,
        verdict="crashed",
        stopped_by="results are JSON, and compared outside the sandbox",
    ),
    Attack(
        group="Answers",
        name="return a number that equals everything",
        program="""
            class Same(int):
                def __eq__(self, other):
                    return True
                __hash__ = int.__hash__
            def f(x):
                return Same(0)
        """,
        call=_CALL,
        verdict="wrong",
        stopped_by="results are JSON, and compared outside the sandbox",
    ),
    Attack(
        group="Answers",
        name="return an object that runs code when unpickled",
        program="""
            class Bomb:
                def __reduce__(self):
                    return print, ('gotcha',)
            def f(x):
                return Bomb()
        """,
        call=_CALL,
        verdict="crashed",
        stopped_by="results are JSON, not pickles",
    ),
    Attack(
        group="Answers",
        name="exit(0) before the tests",
        program="exit(0)",
        call=_CALL,
        verdict="wrong",
        stopped_by="a missing result is wrong",
    ),
    Attack(
        group="Answers",
        name="os._exit(0) in a test",
        program="import os\ndef f(x):\n    os._exit(0)",
        call=_CALL,
        verdict="wrong",
        stopped_by="a missing result is wrong",
    ),
    Attack(
        group="Answers",
        name="SystemExit, KeyboardInterrupt",
        program="def f(x):\n    try: raise SystemExit\n    finally: raise KeyboardInterrupt",
        call=_CALL,
        verdict="crashed",
        stopped_by="the exit status of the process",
    ),
    Attack(
        group="Answers",
        name="search memory for the answer",
        program="""
            import gc, sys
            frame = sys._getframe()
            while frame:
                print(frame.f_locals)
                frame = frame.f_back
            print([one for one in gc.get_objects() if isinstance(one, (str, list, dict, tuple))])
        """,
        verdict="wrong",
        stopped_by="expected values are not in the sandbox",
    ),
    Attack(
        group="Answers",
        name="write a fake result",
        program="""
            import os
            for descriptor in range(64):
                try:
                    os.write(descriptor, b'{"verdict": "passed"}')
                except OSError:
                    pass
            def f(x):
                return x
        """,
        call=_CALL,
        verdict="wrong",
        stopped_by="all output is compared with the expected answer",
    ),
    Attack(
        group="Answers",
        name="patch the modules of the driver",
        program="""
            import json, os
            json.dumps = lambda *_: 'passed'
            def f(x):
                return x
        """,
        call=_CALL,
        verdict="wrong",
        stopped_by="the driver has no answers, and does not compare",
    ),
    Attack(
        group="Answers",
        name="a result that is nested too deeply",
        program="""
            import os
            for descriptor in range(3, 64):
                try:
                    os.write(descriptor, b'[' * 60_000)
                except OSError:
                    pass
            os._exit(0)
        """,
        call=_CALL,
        verdict="wrong",
        stopped_by="the depth limit of the comparison",
    ),
    Attack(
        group="Answers",
        name="huge output",
        program="while True:\n    print('x' * 1000)",
        verdict="wrong",
        stopped_by="the output limit",
    ),
    Attack(
        group="Answers",
        name="huge error output",
        program="import sys\nwhile True:\n    print('x' * 1000, file=sys.stderr)",
        limits=SHORT_WALL_TIME,
        verdict="undecided",
        stopped_by="only the end is stored; the limit on wall-clock time",
    ),
    Attack(
        group="Answers",
        name="output that is not text",
        program="import os\nos.write(1, bytes(range(256)))",
        verdict="wrong",
        stopped_by="invalid UTF-8 is replaced",
    ),
]

_FORBIDDEN_CALLS = (
    *("ptrace", "process_vm_readv", "mount", "unshare", "setns", "pivot_root", "chroot", "bpf"),
    *("io_uring_setup", "userfaultfd", "perf_event_open", "keyctl", "add_key", "init_module", "kexec_load"),
    *("reboot", "open_by_handle_at", "fanotify_init", "pidfd_open", "mq_open", "swapon", "syslog"),
)
KERNEL = [
    *(
        Attack(
            group="Kernel",
            name=name,
            program=_syscall_program(name),
            verdict="forbidden",
            stopped_by="the filter",
        )
        for name in _FORBIDDEN_CALLS
    ),
    Attack(
        group="Kernel",
        name="create a namespace with clone",
        program=_syscall_program("clone", "0x10000000 | 17"),
        verdict="forbidden",
        stopped_by="the filter",
    ),
    Attack(
        group="Kernel",
        name="an unknown system call",
        program=f"{_SYSCALL_PRELUDE}print(call(4000))",
        verdict="wrong",
        stopped_by="the filter: unlisted calls fail with ENOSYS",
    ),
    Attack(
        group="Kernel",
        name="become root",
        program="import os\nos.setgroups([0])\nos.setuid(0)",
        verdict="crashed",
        stopped_by="the program has no capabilities and cannot gain any",
    ),
    Attack(
        group="Kernel",
        name="inject input into the terminal",
        program="import fcntl\nfcntl.ioctl(0, 0x5412, b'x')",
        verdict="forbidden",
        stopped_by="the filter",
    ),
]

ATTACKS = [*PROCESSES, *TIME, *MEMORY, *DISK, *SECRETS, *ANSWERS, *KERNEL]


def attack_table() -> str:
    """The table of attacks for the documentation."""
    lines = ["| | attack | with namespaces | with Landlock | stopped by |", "|---|---|---|---|---|"]
    for attack in ATTACKS:
        other = attack.landlock_verdict or "not allowed"
        cells = (attack.group, attack.name, attack.verdict, other, attack.stopped_by)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
