"""The faults: each function starts the run if necessary, and injects one fault.

Each returns whether the run succeeded nevertheless. After a kill of a worker, the client retries the step:
the next kill hits that retry, and every other fault lets the client finish first.
"""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.recipe_command import Process, run_command, wait_until
from tests.runtime.chaos_phases import await_kill_point
from tests.runtime.chaos_run import TIMEOUT_SECONDS, ChaosRun, damaged_products
from tests.runtime.process_tree import command_line, descendants, is_alive, kill_process, parent_pid
from tests.runtime.resizable_tmpfs import LARGE_BYTES, resize, used_bytes

JUMPING_CLOCK = Path(__file__).parent / "jumping_clock"
# The victims of a kill, and their weights. After the death of a worker the client retries.
VICTIMS = {"worker": 0.45, "client": 0.25, "client and workers": 0.2, "forkserver": 0.1}

Fault = Callable[[ChaosRun], bool]


def kill_processes(chaos_run: ChaosRun, environment: Mapping[str, str] | None = None) -> bool:
    """Kill the client, its workers, all of them or the forkserver at a random time."""
    client = chaos_run.ensure_client(environment)
    aim, delay = await_kill_point(
        chaos_run.home, chaos_run.rng, chaos_run.seconds, lambda: client.poll() is None
    )
    if client.poll() is not None:
        return chaos_run.wait_for_client()
    at = time.monotonic() - chaos_run.started_at
    victim, pids = _choose_victim(chaos_run, client.pid)
    outlives = victim in ("worker", "forkserver")
    if outlives:
        chaos_run.worker_killed = True
        os.kill(client.pid, signal.SIGSTOP)  # inspect the state after the kill before the client reacts
    for pid in pids:
        kill_process(pid)
    if not outlives:
        chaos_run.wait_for_client()
    else:
        wait_until(lambda: not any(map(is_alive, pids)), "the end of who was killed", seconds=60)
    seen = chaos_run.inspect()
    chaos_run.violations += damaged_products(chaos_run.home)
    otherwise = (
        "the client's own start" if chaos_run.count_runs() == chaos_run.runs_before else "between steps"
    )
    note: dict[str, Any] = {
        "at": round(at, 3),
        "aim": aim,
        "delay": round(delay, 4),
        "victim": victim,
        "phase": seen.phase(otherwise),
        "under way": [vars(sight) for sight in seen.steps],
        "killed": len(pids),
    }
    chaos_run.kills.append(note)
    chaos_run.hits[f"kill {victim}: {note['phase']}"] += 1
    if outlives:
        os.kill(client.pid, signal.SIGCONT)
    return False


def _choose_victim(chaos_run: ChaosRun, client: int) -> tuple[str, list[int]]:
    """A random victim among the existing processes."""
    below = descendants(client)
    forkservers = [
        pid
        for pid in below
        if b"posttrain.runtime.forkserver" in command_line(pid) and parent_pid(pid) == client
    ]
    workers = [pid for pid in below if pid not in forkservers]
    (victim,) = chaos_run.rng.choices(list(VICTIMS), list(VICTIMS.values()))
    there = {
        "worker": workers,
        "client": [client],
        "client and workers": [*below, client],
        "forkserver": forkservers,
    }
    return (victim, there[victim]) if there[victim] else ("client", [client])


def kill_and_restart(chaos_run: ChaosRun) -> bool:
    """Kill the client and start the next one at once, in another folder, while the workers still exit."""
    client = chaos_run.ensure_client()
    await_kill_point(chaos_run.home, chaos_run.rng, chaos_run.seconds, lambda: client.poll() is None)
    if client.poll() is not None:
        return chaos_run.wait_for_client()
    chaos_run.hits["kill client, the next at once"] += 1
    kill_process(client.pid)
    chaos_run.client = chaos_run.start_client(cwd=Path("/"))
    chaos_run.worker_killed, chaos_run.log_offset, chaos_run.started_at = (
        False,
        chaos_run.log_size(),
        time.monotonic(),
    )
    client.wait(timeout=TIMEOUT_SECONDS)
    return False


def run_two_clients(chaos_run: ChaosRun) -> bool:
    """Run two clients at once, and sometimes kill one of them."""
    if chaos_run.client is not None and chaos_run.wait_for_client():
        return True
    clients = [chaos_run.start_client(), chaos_run.start_client()]
    killed = chaos_run.rng.random() < 0.5
    chaos_run.hits["two clients" + (", one killed" if killed else "")] += 1
    if killed:
        _wait_random(chaos_run, clients[0])
        killed = clients[0].poll() is None
        clients[0].kill()
    ends = [client.wait(timeout=2 * TIMEOUT_SECONDS) for client in clients]
    chaos_run.wait_for_processes()
    if ends[1] != 0 or ends[0] != (-signal.SIGKILL if killed else 0):
        chaos_run.violations.append(f"two clients ended with {ends}")
    return ends[1] == 0


def jump_clock(chaos_run: ChaosRun) -> bool:
    """Make the clock jump by days in every process, and sometimes kill the run too."""
    if chaos_run.client is not None and chaos_run.wait_for_client():
        return True
    chaos_run.hits["clock"] += 1
    path = os.pathsep.join(filter(None, (str(JUMPING_CLOCK), os.environ.get("PYTHONPATH"))))
    environment = {"PYTHONPATH": path, "RECIPE_TEST_CLOCK": str(chaos_run.rng.random())}
    if chaos_run.rng.random() < 0.5:
        return kill_processes(chaos_run, environment)
    ended = chaos_run.start_client(environment).wait(timeout=2 * TIMEOUT_SECONDS)
    chaos_run.wait_for_processes()
    if ended != 0:
        chaos_run.violations.append(f"with a jumping clock the run ended with {ended}")
    return ended == 0


def _count_runs(home: Path) -> int:
    return len(list((home / "runs").glob("*")))


def _shrink(home: Path, limit: int) -> None:
    """Limit the size of the file system, or to what it holds if that is more already."""
    for _ in range(100):
        try:
            return resize(home, max(limit, used_bytes(home)))
        except subprocess.CalledProcessError:  # a step has written in the meantime
            continue
    raise AssertionError(f"{home} cannot be limited to {limit} bytes")


def fill_disk(chaos_run: ChaosRun) -> bool:
    """Fill the disk at a random write. The home is on a small file system of its own."""
    if chaos_run.client is not None and chaos_run.wait_for_client():
        return True
    taken = used_bytes(chaos_run.home)
    limit = taken + int(chaos_run.rng.uniform(0, max(0, chaos_run.disk_bytes - taken) + (1 << 20)))
    before = chaos_run.log_size()
    runs = _count_runs(chaos_run.home)
    client = chaos_run.start_client()
    # A run checks the free space before its first step, so the disk becomes small only then.
    wait_until(lambda: _count_runs(chaos_run.home) > runs or client.poll() is not None, "the run has started")
    _shrink(chaos_run.home, limit)
    ended = client.wait(timeout=2 * TIMEOUT_SECONDS)
    chaos_run.wait_for_processes()
    chaos_run.hits["full disk: " + ("enough room" if ended == 0 else chaos_run.active_steps())] += 1
    resize(chaos_run.home, LARGE_BYTES)
    output = chaos_run.log.read_bytes()[before:].decode(errors="replace")
    if ended != 0 and "disk is full" not in output:
        chaos_run.violations.append(f"no message about the full disk: {output[-400:]}")
    if "Traceback" in output or "internal error" in output:
        chaos_run.violations.append(f"internal error on a full disk: {output[-600:]}")
    return ended == 0


def damage_files(chaos_run: ChaosRun) -> bool:
    """After a kill, flip bits in files on the disk, or truncate them."""
    if kill_processes(chaos_run):
        chaos_run.hits["kill came too late"] += 1
    if chaos_run.client is not None:  # it was not among the victims
        kill_process(chaos_run.client.pid)
        chaos_run.wait_for_client()
    for _ in range(chaos_run.rng.choice((1, 1, 2, 3))):
        victims = _damageable_files(chaos_run.home)
        if victims:
            kind = chaos_run.rng.choice(sorted(victims))
            path = chaos_run.rng.choice(victims[kind])
            how = chaos_run.rng.choice((_flip_bit, _truncate))
            how(path, chaos_run.rng)
            chaos_run.hits[f"damage {kind}: {how.__name__.strip('_')}"] += 1
    chaos_run.finished.clear()  # damaged steps have to run again
    verified = run_command("verify", "--home", chaos_run.home, "--repair")
    # A plan has no second copy, so it is reported only; its run is only a record.
    plans = verified.stdout.count("not repaired: it cannot be rebuilt")
    if (verified.returncode and not plans) or "Traceback" in verified.stderr:
        chaos_run.violations.append(
            f"verify ended with {verified.returncode}: {verified.stdout} {verified.stderr}"
        )
    return False


FAULTS: dict[str, Fault] = {
    "kill": kill_processes,
    "restart": kill_and_restart,
    "concurrent": run_two_clients,
    "clock": jump_clock,
    "disk_full": fill_disk,
    "damage": damage_files,
}
_DAMAGE_TARGETS = {
    "manifest": "store/*/manifest.json",
    "artifact": "store/*/files/**/*",
    "record": "store/*/record/*",
    "checkpoint": "work/*/checkpoints/**/*",
    "product under way": "work/*/files/**/*",
    "work": "work/*/*",
    "record under way": "work/*/record/*",
    "run": "runs/*/*",
}


def _damageable_files(home: Path) -> dict[str, list[Path]]:
    """The files that can be damaged, by kind."""
    found: dict[str, list[Path]] = {}
    for kind, pattern in _DAMAGE_TARGETS.items():
        files = sorted(
            p for p in home.glob(pattern) if p.is_file() and p.suffix != ".lock" and p.stat().st_size
        )
        if files:
            found[kind] = files
    return found


def _flip_bit(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def _truncate(path: Path, draw: random.Random) -> None:
    os.truncate(path, draw.randrange(path.stat().st_size))


def _wait_random(chaos_run: ChaosRun, client: Process) -> None:
    deadline = time.monotonic() + chaos_run.rng.uniform(0.3, chaos_run.seconds)
    while time.monotonic() < deadline and client.poll() is None:
        time.sleep(0.002)
