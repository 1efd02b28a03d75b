"""What programs try against the sandbox, and what stops each. `docs/sandbox.md` shows this list.

Every program gets the path of a file of the machine on its first line of input. None of them can pass: only
the test knows what is expected.
"""

from dataclasses import dataclass
from typing import Any

from posttrain.runtime.sandbox.bubblewrap import Bubblewrap
from posttrain.runtime.sandbox.job import Sandbox
from posttrain.runtime.sandbox.limits import Limits, Verdict

LIMITS = Limits(seconds=30.0, cpu_seconds=20, memory_mb=256, output_kb=256)
SHORT_TIME = Limits(seconds=1.0, cpu_seconds=1, memory_mb=256)
SEVERAL_PROCESSES = Limits(seconds=1.0, cpu_seconds=1, memory_mb=512, processes=8)
DISK_SPACE = Limits(seconds=30.0, cpu_seconds=20, memory_mb=256, disk_mb=8)


@dataclass(frozen=True, kw_only=True)
class Attack:
    group: str
    name: str
    program: str
    # In the sandbox of namespaces, and in landlock's where it differs; None where it cannot be tried.
    verdict: Verdict
    landlock: Verdict | None = "passed"  # stands for the same
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
    """A program that makes a system call by its number."""
    return f"{_SYSCALL_PRELUDE}print(call(NUMBER_{name}, {arguments}))"


PROCESSES = [
    Attack(
        group="Processes",
        name="fork bomb",
        program="import os\nwhile True:\n    os.fork()",
        verdict="forbidden",
        stopped_by="the filter: a program may be one process",
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
        verdict="timed_out",
        landlock=None,
        stopped_by="the limit on processes, the time, and the end of the sandbox with all that is in it",
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
        stopped_by="the limit on threads",
    ),
    Attack(
        group="Processes",
        name="daemon left behind",
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
        name="daemon left behind, where several processes are allowed",
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
        stopped_by="the end of the sandbox with all that is in it",
    ),
    Attack(
        group="Processes",
        name="another program in its place",
        program="import os\nos.execv('/bin/sh', ['sh', '-c', 'cat /etc/shadow; sleep 600 & id; id'])",
        verdict="forbidden",
        stopped_by="the filter, which outlives an exec",
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
        stopped_by="its parent is the sandbox's first process, which it cannot harm; or the filter",
    ),
    Attack(
        group="Processes",
        name="kill everything",
        program="import os, signal\nos.kill(-1, signal.SIGKILL)",
        verdict="crashed",
        landlock="forbidden",
        stopped_by="there is nothing else in the sandbox; or the filter",
    ),
    Attack(
        group="Processes",
        name="signals to the parent by way of a file",
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
        stopped_by="its parent is the sandbox's first process; or the filter",
    ),
    Attack(
        group="Processes",
        name="tie the parent's hands by limits",
        program="""
            import os, resource
            try:
                resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))
            except OSError:
                pass
        """,
        verdict="wrong",
        landlock="forbidden",
        stopped_by="its parent is the sandbox's first process; or the filter",
    ),
]

TIME = [
    Attack(
        group="Time",
        name="endless loop, deaf to signals",
        program="""
            import signal
            for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(number, signal.SIG_IGN)
            while True:
                pass
        """,
        limits=SHORT_TIME,
        verdict="timed_out",
        stopped_by="the limit on a core's time, whose second word is SIGKILL",
    ),
    Attack(
        group="Time",
        name="sleep",
        program="import time\ntime.sleep(600)",
        limits=SHORT_TIME,
        verdict="timed_out",
        stopped_by="the wall clock",
    ),
    Attack(
        group="Time",
        name="stop itself",
        program="import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        limits=SHORT_TIME,
        verdict="timed_out",
        stopped_by="the wall clock",
    ),
    Attack(
        group="Time",
        name="close every descriptor and wait",
        program="import os, time\nos.closerange(0, 64)\ntime.sleep(600)",
        limits=SHORT_TIME,
        verdict="timed_out",
        stopped_by="the wall clock",
    ),
    Attack(
        group="Time",
        name="read standard input for ever",
        program="import sys\nwhile True:\n    sys.stdin.read()",
        limits=SHORT_TIME,
        verdict="timed_out",
        stopped_by="input is a sealed file with an end; then the limit on a core's time",
    ),
    Attack(
        group="Time",
        name="a source that takes long to compile",
        program="x = " + "(" * 50_000 + ")" * 50_000,
        verdict="crashed",
        stopped_by="it is compiled inside the sandbox",
    ),
]

MEMORY = [
    Attack(
        group="Memory",
        name="memory bomb",
        program="kept = []\nwhile True:\n    kept.append(bytearray(1 << 20))",
        verdict="memory",
        stopped_by="the limit on memory",
    ),
    Attack(
        group="Memory",
        name="all of it at once",
        program="bytearray(1 << 42)",
        verdict="memory",
        stopped_by="the limit on memory",
    ),
    Attack(
        group="Memory",
        name="memory as a file without a name",
        program="import os\nos.ftruncate(os.memfd_create('hoard'), 1 << 40)",
        verdict="crashed",
        stopped_by="the filter: the call does not exist",
    ),
    Attack(
        group="Memory",
        name="shared memory that outlives its owner",
        program=_syscall_program("shmget", "0, 1 << 30, 0o1600"),
        verdict="forbidden",
        stopped_by="the filter",
    ),
    Attack(
        group="Memory",
        name="deep recursion",
        program="def f(n):\n    return f(n + 1)\nf(0)",
        verdict="crashed",
        stopped_by="Python's own limit",
    ),
    Attack(
        group="Memory",
        name="deep recursion, with the limit taken away",
        program="""
            import sys
            sys.setrecursionlimit(10**9)
            class Deep:
                def __repr__(self):
                    return repr(self)
            repr(Deep())
        """,
        verdict="crashed",
        stopped_by="the limit on the stack",
    ),
    Attack(
        group="Memory",
        name="raise the limits",
        program="import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        verdict="crashed",
        stopped_by="only root may raise them",
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
        stopped_by="nothing can be written to",
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
        stopped_by="the size of the sandbox's /tmp, which is memory and goes with it",
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
        stopped_by="the link leads to a name in the sandbox",
    ),
    Attack(
        group="Disk",
        name="symbolic links in place of its own files",
        program="import os\nos.unlink(__file__)\nos.symlink(input(), __file__)",
        verdict="crashed",
        stopped_by="nothing can be written to",
    ),
    Attack(
        group="Disk",
        name="write to a file of the machine's",
        program="open(input(), 'w').write('gotcha')",
        verdict="crashed",
        stopped_by="the file is not in the sandbox; or Landlock",
    ),
    Attack(
        group="Disk",
        name="take a file's rights away",
        program="import os\nos.chmod(input(), 0)",
        verdict="crashed",
        stopped_by="the file is not in the sandbox; or the filter",
    ),
]

SECRETS = [
    Attack(
        group="Secrets",
        name="read a file of the machine's",
        program="print(open(input()).read())",
        verdict="crashed",
        stopped_by="the file is not in the sandbox; or Landlock",
    ),
    Attack(
        group="Secrets",
        name="read /etc/shadow, /etc/passwd, a home",
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
        stopped_by="they are not in the sandbox; or Landlock",
    ),
    Attack(
        group="Secrets",
        name="the machine's environment",
        program="import os\nprint(dict(os.environ))",
        verdict="wrong",
        stopped_by="it starts with an environment of its own",
    ),
    Attack(
        group="Secrets",
        name="another process's environment, memory, root",
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
        stopped_by="there is no /proc in the sandbox; or Landlock",
    ),
    Attack(
        group="Secrets",
        name="network",
        program="import socket\nsocket.create_connection(('1.1.1.1', 53), timeout=1)",
        verdict="forbidden",
        stopped_by="the filter; and the sandbox has no network",
    ),
    Attack(
        group="Secrets",
        name="a name on the network",
        program="import socket\nprint(socket.getaddrinfo('localhost', 80))",
        verdict="forbidden",
        stopped_by="the filter",
    ),
    Attack(
        group="Secrets",
        name="a socket of a service on this machine",
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
        name="an object that equals everything",
        program="""
            class Same:
                def __eq__(self, other):
                    return True
            def f(x):
                return Same()
        """,
        call=_CALL,
        verdict="crashed",
        stopped_by="results leave the sandbox as JSON, and are compared outside",
    ),
    Attack(
        group="Answers",
        name="a number that equals everything",
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
        stopped_by="results leave the sandbox as JSON, and are compared outside",
    ),
    Attack(
        group="Answers",
        name="a result that runs code where it is read",
        program="""
            class Bomb:
                def __reduce__(self):
                    return print, ('gotcha',)
            def f(x):
                return Bomb()
        """,
        call=_CALL,
        verdict="crashed",
        stopped_by="nothing is pickled",
    ),
    Attack(
        group="Answers",
        name="exit(0) before the tests",
        program="exit(0)",
        call=_CALL,
        verdict="wrong",
        stopped_by="no result is no answer",
    ),
    Attack(
        group="Answers",
        name="os._exit(0) in a test",
        program="import os\ndef f(x):\n    os._exit(0)",
        call=_CALL,
        verdict="wrong",
        stopped_by="no result is no answer",
    ),
    Attack(
        group="Answers",
        name="SystemExit, KeyboardInterrupt",
        program="def f(x):\n    try: raise SystemExit\n    finally: raise KeyboardInterrupt",
        call=_CALL,
        verdict="crashed",
        stopped_by="the process ends as it ends",
    ),
    Attack(
        group="Answers",
        name="look for the answer in memory",
        program="""
            import gc, sys
            frame = sys._getframe()
            while frame:
                print(frame.f_locals)
                frame = frame.f_back
            print([one for one in gc.get_objects() if isinstance(one, (str, list, dict, tuple))])
        """,
        verdict="wrong",
        stopped_by="the answer is not in the sandbox",
    ),
    Attack(
        group="Answers",
        name="write results of its own",
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
        stopped_by="what is written is its answer, and is compared",
    ),
    Attack(
        group="Answers",
        name="change the driver's modules",
        program="""
            import json, os
            json.dumps = lambda *_: 'passed'
            def f(x):
                return x
        """,
        call=_CALL,
        verdict="wrong",
        stopped_by="the driver knows no answers, and decides nothing",
    ),
    Attack(
        group="Answers",
        name="a result nested too deep to read",
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
        stopped_by="limits where results are read",
    ),
    Attack(
        group="Answers",
        name="huge output",
        program="while True:\n    print('x' * 1000)",
        verdict="wrong",
        stopped_by="the limit on output",
    ),
    Attack(
        group="Answers",
        name="huge error output",
        program="import sys\nwhile True:\n    print('x' * 1000, file=sys.stderr)",
        limits=SHORT_TIME,
        verdict="timed_out",
        stopped_by="only its end is kept; the wall clock",
    ),
    Attack(
        group="Answers",
        name="output that is no text",
        program="import os\nos.write(1, bytes(range(256)))",
        verdict="wrong",
        stopped_by="bytes that are no UTF-8 are marked as such",
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
        name="a namespace by clone",
        program=_syscall_program("clone", "0x10000000 | 17"),
        verdict="forbidden",
        stopped_by="the filter",
    ),
    Attack(
        group="Kernel",
        name="a call that is not known yet",
        program=f"{_SYSCALL_PRELUDE}print(call(4000))",
        verdict="wrong",
        stopped_by="the filter: what is not listed does not exist",
    ),
    Attack(
        group="Kernel",
        name="become root",
        program="import os\nos.setgroups([0])\nos.setuid(0)",
        verdict="crashed",
        stopped_by="no rights, and no way to new ones",
    ),
    Attack(
        group="Kernel",
        name="type into the terminal",
        program="import fcntl\nfcntl.ioctl(0, 0x5412, b'x')",
        verdict="forbidden",
        stopped_by="the filter",
    ),
]

ATTACKS = [*PROCESSES, *TIME, *MEMORY, *DISK, *SECRETS, *ANSWERS, *KERNEL]


def attack_table() -> str:
    """The attacks as the documentation shows them."""
    lines = ["| | what it tries | in namespaces | by Landlock | stopped by |", "|---|---|---|---|---|"]
    for attack in ATTACKS:
        other = attack.landlock_verdict or "not allowed"
        cells = (attack.group, attack.name, attack.verdict, other, attack.stopped_by)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
