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

from tests.recipe_command import call, wait_until
from tests.runtime.chaos_moments import await_moment
from tests.runtime.processes import alive, command_of, kill_now, parent_of, processes_below
from tests.runtime.scene import SECONDS, Scene, half_made
from tests.runtime.small_disk import LARGE, resize, used

CLOCK = Path(__file__).parent / "jumping_clock"
# Whom a kill hits, and how often. A worker's death leaves the client to try again.
VICTIMS = {"worker": 0.45, "client": 0.25, "client and workers": 0.2, "warm process": 0.1}

Disturbance = Callable[[Scene], bool]


def kill(scene: Scene, environment: Mapping[str, str] | None = None) -> bool:
    """The client, its workers, all of them or the warm process are killed at an instant."""
    client = scene.running(environment)
    aim, delay = await_moment(scene.home, scene.draw, scene.seconds, lambda: client.poll() is None)
    if client.poll() is not None:
        return scene.rest()
    at = time.monotonic() - scene.began
    victim, pids = _victim(scene, client.pid)
    outlives = victim in ("worker", "warm process")
    if outlives:
        scene.wounded = True
        os.kill(client.pid, signal.SIGSTOP)  # what the kill leaves is looked at before the client reacts
    for pid in pids:
        kill_now(pid)
    if not outlives:
        scene.rest()
    else:
        wait_until(lambda: not any(map(alive, pids)), "the end of who was killed", seconds=60)
    seen = scene.see()
    scene.lost += half_made(scene.home)
    otherwise = "the client's own start" if scene.count_runs() == scene.runs_before else "between steps"
    note: dict[str, Any] = {
        "at": round(at, 3),
        "aim": aim,
        "delay": round(delay, 4),
        "victim": victim,
        "phase": seen.phase(otherwise),
        "under way": [vars(sight) for sight in seen.sights],
        "killed": len(pids),
    }
    scene.kills.append(note)
    scene.hit[f"kill {victim}: {note['phase']}"] += 1
    if outlives:
        os.kill(client.pid, signal.SIGCONT)
    return False


def _victim(scene: Scene, client: int) -> tuple[str, list[int]]:
    """Who is hit: of those that are drawn, one that is there."""
    below = processes_below(client)
    warm = [pid for pid in below if b"posttrain.runtime.warm" in command_of(pid) and parent_of(pid) == client]
    workers = [pid for pid in below if pid not in warm]
    (victim,) = scene.draw.choices(list(VICTIMS), list(VICTIMS.values()))
    there = {
        "worker": workers,
        "client": [client],
        "client and workers": [*below, client],
        "warm process": warm,
    }
    return (victim, there[victim]) if there[victim] else ("client", [client])


def hasty(scene: Scene) -> bool:
    """The client is killed, and the next begins at once, from another folder: it finds the workers dying."""
    client = scene.running()
    await_moment(scene.home, scene.draw, scene.seconds, lambda: client.poll() is None)
    if client.poll() is not None:
        return scene.rest()
    scene.hit["kill client, the next at once"] += 1
    kill_now(client.pid)
    scene.client = scene.begin(cwd=Path("/"))
    scene.wounded, scene.log_from, scene.began = False, scene.log_size(), time.monotonic()
    client.wait(timeout=SECONDS)
    return False


def two(scene: Scene) -> bool:
    """Two clients at once; one of them may be killed."""
    if scene.client is not None and scene.rest():
        return True
    clients = [scene.begin(), scene.begin()]
    killed = scene.draw.random() < 0.5
    scene.hit["two clients" + (", one killed" if killed else "")] += 1
    if killed:
        _let_run(scene, clients[0])
        killed = clients[0].poll() is None
        clients[0].kill()
    ends = [client.wait(timeout=2 * SECONDS) for client in clients]
    scene.settle()
    if ends[1] != 0 or ends[0] != (-signal.SIGKILL if killed else 0):
        scene.lost.append(f"two clients ended with {ends}")
    return ends[1] == 0


def clock(scene: Scene) -> bool:
    """The clock jumps by days, in every process of its own; the run may be killed besides."""
    if scene.client is not None and scene.rest():
        return True
    scene.hit["clock"] += 1
    path = os.pathsep.join(filter(None, (str(CLOCK), os.environ.get("PYTHONPATH"))))
    environment = {"PYTHONPATH": path, "RECIPE_TEST_CLOCK": str(scene.draw.random())}
    if scene.draw.random() < 0.5:
        return kill(scene, environment)
    ended = scene.begin(environment).wait(timeout=2 * SECONDS)
    scene.settle()
    if ended != 0:
        scene.lost.append(f"with a jumping clock the run ended with {ended}")
    return ended == 0


def full(scene: Scene) -> bool:
    """The disk fills up at a random write. The home lies on a small file system of its own."""
    if scene.client is not None and scene.rest():
        return True
    taken = used(scene.home)
    limit = taken + int(scene.draw.uniform(0, max(0, scene.room - taken) + (1 << 20)))
    before = scene.log_size()
    resize(scene.home, limit)
    ended = scene.begin().wait(timeout=2 * SECONDS)
    scene.settle()
    scene.hit["full disk: " + ("enough room" if ended == 0 else scene.doing())] += 1
    resize(scene.home, LARGE)
    told = scene.log.read_bytes()[before:].decode(errors="replace")
    if ended != 0 and "disk is full" not in told:
        scene.lost.append(f"a full disk was not named: {told[-400:]}")
    if "Traceback" in told or "mistake of ours" in told:
        scene.lost.append(f"a full disk was not foreseen: {told[-600:]}")
    return ended == 0


def damage(scene: Scene) -> bool:
    """After a kill, bytes of what lies on the disk are changed or cut off."""
    if kill(scene):
        scene.hit["kill came too late"] += 1
    if scene.client is not None:  # it was not among those killed
        kill_now(scene.client.pid)
        scene.rest()
    for _ in range(scene.draw.choice((1, 1, 2, 3))):
        victims = _victims(scene.home)
        if victims:
            kind = scene.draw.choice(sorted(victims))
            path = scene.draw.choice(victims[kind])
            how = scene.draw.choice((_flip, _cut))
            how(path, scene.draw)
            scene.hit[f"damage {kind}: {how.__name__.strip('_')}"] += 1
    scene.finished.clear()  # what was damaged has to be done again
    verified = call("verify", "--home", scene.home, "--repair")
    # Of a plan there is no second copy: it is named, and its run is only a record.
    plans = verified.stdout.count("left alone: nothing can make it again")
    if (verified.returncode and not plans) or "Traceback" in verified.stderr:
        scene.lost.append(f"verify ended with {verified.returncode}: {verified.stdout} {verified.stderr}")
    return False


KINDS: dict[str, Disturbance] = {
    "kill": kill,
    "hasty": hasty,
    "two": two,
    "clock": clock,
    "full": full,
    "damage": damage,
}
_PLACES = {
    "manifest": "store/*/manifest.json",
    "artifact": "store/*/files/**/*",
    "record": "store/*/record/*",
    "checkpoint": "work/*/checkpoints/**/*",
    "product under way": "work/*/files/**/*",
    "work": "work/*/*",
    "record under way": "work/*/record/*",
    "run": "runs/*/*",
}


def _victims(home: Path) -> dict[str, list[Path]]:
    """The files that can be damaged, by what they are."""
    found: dict[str, list[Path]] = {}
    for kind, pattern in _PLACES.items():
        files = sorted(
            p for p in home.glob(pattern) if p.is_file() and p.suffix != ".lock" and p.stat().st_size
        )
        if files:
            found[kind] = files
    return found


def _flip(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def _cut(path: Path, draw: random.Random) -> None:
    os.truncate(path, draw.randrange(path.stat().st_size))


def _let_run(scene: Scene, client: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + scene.draw.uniform(0.3, scene.seconds)
    while time.monotonic() < deadline and client.poll() is None:
        time.sleep(0.002)
