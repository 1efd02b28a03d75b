"""What can befall a run: each function starts it if it does not run, and disturbs it.

Each says whether the run has ended well after all. A kill of a worker leaves the client running, which
tries the step again: the next kill finds it so, every other disturbance lets it come to its end first.
"""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.recipe_command import run_command, wait_until
from tests.runtime.chaos_phases import await_kill_point
from tests.runtime.chaos_run import TIMEOUT_SECONDS, ChaosRun, damaged_products
from tests.runtime.process_tree import command_line, descendants, is_alive, kill_process, parent_pid
from tests.runtime.resizable_tmpfs import LARGE_BYTES, resize, used_bytes

JUMPING_CLOCK = Path(__file__).parent / "jumping_clock"
# Whom a kill hits, and how often. A worker's death leaves the client to try again.
VICTIMS = {"worker": 0.45, "client": 0.25, "client and workers": 0.2, "warm process": 0.1}

Fault = Callable[[ChaosRun], bool]


def kill_processes(scene: ChaosRun, environment: Mapping[str, str] | None = None) -> bool:
    """The client, its workers, all of them or the warm process are killed at an instant."""
    client = scene.ensure_client(environment)
    aim, delay = await_kill_point(scene.home, scene.rng, scene.seconds, lambda: client.poll() is None)
    if client.poll() is not None:
        return scene.wait_for_client()
    at = time.monotonic() - scene.started_at
    victim, pids = _choose_victim(scene, client.pid)
    outlives = victim in ("worker", "warm process")
    if outlives:
        scene.worker_killed = True
        os.kill(client.pid, signal.SIGSTOP)  # what the kill leaves is looked at before the client reacts
    for pid in pids:
        kill_process(pid)
    if not outlives:
        scene.wait_for_client()
    else:
        wait_until(lambda: not any(map(is_alive, pids)), "the end of who was killed", seconds=60)
    seen = scene.inspect()
    scene.violations += damaged_products(scene.home)
    otherwise = "the client's own start" if scene.count_runs() == scene.runs_before else "between steps"
    note: dict[str, Any] = {
        "at": round(at, 3),
        "aim": aim,
        "delay": round(delay, 4),
        "victim": victim,
        "phase": seen.phase(otherwise),
        "under way": [vars(sight) for sight in seen.steps],
        "killed": len(pids),
    }
    scene.kills.append(note)
    scene.hits[f"kill {victim}: {note['phase']}"] += 1
    if outlives:
        os.kill(client.pid, signal.SIGCONT)
    return False


def _choose_victim(scene: ChaosRun, client: int) -> tuple[str, list[int]]:
    """Who is hit: of those that are drawn, one that is there."""
    below = descendants(client)
    warm = [
        pid
        for pid in below
        if b"posttrain.runtime.forkserver" in command_line(pid) and parent_pid(pid) == client
    ]
    workers = [pid for pid in below if pid not in warm]
    (victim,) = scene.rng.choices(list(VICTIMS), list(VICTIMS.values()))
    there = {
        "worker": workers,
        "client": [client],
        "client and workers": [*below, client],
        "warm process": warm,
    }
    return (victim, there[victim]) if there[victim] else ("client", [client])


def kill_and_restart(scene: ChaosRun) -> bool:
    """The client is killed, and the next begins at once, from another folder: it finds the workers dying."""
    client = scene.ensure_client()
    await_kill_point(scene.home, scene.rng, scene.seconds, lambda: client.poll() is None)
    if client.poll() is not None:
        return scene.wait_for_client()
    scene.hits["kill client, the next at once"] += 1
    kill_process(client.pid)
    scene.client = scene.start_client(cwd=Path("/"))
    scene.worker_killed, scene.log_offset, scene.started_at = False, scene.log_size(), time.monotonic()
    client.wait(timeout=TIMEOUT_SECONDS)
    return False


def run_two_clients(scene: ChaosRun) -> bool:
    """Two clients at once; one of them may be killed."""
    if scene.client is not None and scene.wait_for_client():
        return True
    clients = [scene.start_client(), scene.start_client()]
    killed = scene.rng.random() < 0.5
    scene.hits["two clients" + (", one killed" if killed else "")] += 1
    if killed:
        _wait_random(scene, clients[0])
        killed = clients[0].poll() is None
        clients[0].kill()
    ends = [client.wait(timeout=2 * TIMEOUT_SECONDS) for client in clients]
    scene.wait_for_processes()
    if ends[1] != 0 or ends[0] != (-signal.SIGKILL if killed else 0):
        scene.violations.append(f"two clients ended with {ends}")
    return ends[1] == 0


def jump_clock(scene: ChaosRun) -> bool:
    """The clock jumps by days, in every process of its own; the run may be killed besides."""
    if scene.client is not None and scene.wait_for_client():
        return True
    scene.hits["clock"] += 1
    path = os.pathsep.join(filter(None, (str(JUMPING_CLOCK), os.environ.get("PYTHONPATH"))))
    environment = {"PYTHONPATH": path, "RECIPE_TEST_CLOCK": str(scene.rng.random())}
    if scene.rng.random() < 0.5:
        return kill_processes(scene, environment)
    ended = scene.start_client(environment).wait(timeout=2 * TIMEOUT_SECONDS)
    scene.wait_for_processes()
    if ended != 0:
        scene.violations.append(f"with a jumping clock the run ended with {ended}")
    return ended == 0


def fill_disk(scene: ChaosRun) -> bool:
    """The disk fills up at a random write. The home lies on a small file system of its own."""
    if scene.client is not None and scene.wait_for_client():
        return True
    taken = used_bytes(scene.home)
    limit = taken + int(scene.rng.uniform(0, max(0, scene.disk_bytes - taken) + (1 << 20)))
    before = scene.log_size()
    resize(scene.home, limit)
    ended = scene.start_client().wait(timeout=2 * TIMEOUT_SECONDS)
    scene.wait_for_processes()
    scene.hits["full disk: " + ("enough room" if ended == 0 else scene.active_steps())] += 1
    resize(scene.home, LARGE_BYTES)
    told = scene.log.read_bytes()[before:].decode(errors="replace")
    if ended != 0 and "disk is full" not in told:
        scene.violations.append(f"a full disk was not named: {told[-400:]}")
    if "Traceback" in told or "mistake of ours" in told:
        scene.violations.append(f"a full disk was not foreseen: {told[-600:]}")
    return ended == 0


def damage_files(scene: ChaosRun) -> bool:
    """After a kill, bytes of what lies on the disk are changed or cut off."""
    if kill_processes(scene):
        scene.hits["kill came too late"] += 1
    if scene.client is not None:  # it was not among those killed
        kill_process(scene.client.pid)
        scene.wait_for_client()
    for _ in range(scene.rng.choice((1, 1, 2, 3))):
        victims = _damageable_files(scene.home)
        if victims:
            kind = scene.rng.choice(sorted(victims))
            path = scene.rng.choice(victims[kind])
            how = scene.rng.choice((_flip_bit, _truncate))
            how(path, scene.rng)
            scene.hits[f"damage {kind}: {how.__name__.strip('_')}"] += 1
    scene.finished.clear()  # what was damaged has to be done again
    verified = run_command("verify", "--home", scene.home, "--repair")
    # Of a plan there is no second copy: it is named, and its run is only a record.
    plans = verified.stdout.count("left alone: nothing can make it again")
    if (verified.returncode and not plans) or "Traceback" in verified.stderr:
        scene.violations.append(
            f"verify ended with {verified.returncode}: {verified.stdout} {verified.stderr}"
        )
    return False


FAULTS: dict[str, Fault] = {
    "kill": kill_processes,
    "hasty": kill_and_restart,
    "two": run_two_clients,
    "clock": jump_clock,
    "full": fill_disk,
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
    """The files that can be damaged, by what they are."""
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


def _wait_random(scene: ChaosRun, client: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + scene.rng.uniform(0.3, scene.seconds)
    while time.monotonic() < deadline and client.poll() is None:
        time.sleep(0.002)
