"""What can befall a run: each function starts it, disturbs it, and says whether it ended well after all."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.recipe_command import RECIPE, TINY, call, wait_until, workers_of

CLOCK = Path(__file__).parent / "jumping_clock"
SECONDS = 180


@dataclass
class Scene:
    """A home that a run is carried out in, in spite of everything."""

    home: Path
    log: Path
    draw: random.Random
    # How long an undisturbed run takes, and how much room it needs.
    seconds: float
    room: int
    hit: Counter[str] = field(default_factory=Counter[str])
    lost: list[str] = field(default_factory=list[str])

    def begin(self, **environment: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [*RECIPE, "run", str(TINY), "--home", str(self.home)],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **environment},
            )

    def settle(self) -> None:
        """Wait for the end of all processes."""
        wait_until(lambda: not workers_of(self.home), "the end of all processes", seconds=30)

    def doing(self) -> str:
        """The stages under way, by their workplaces."""
        names: list[str] = []
        for step in sorted((self.home / "work").glob("*/record/step.json")):
            try:
                names.append(json.loads(step.read_text())["id"])
            except (OSError, ValueError):
                names.append("?")
        return "+".join(names) or "between steps"


Disturbance = Callable[[Scene], bool]


def kill(scene: Scene, **environment: str) -> bool:
    """The client, its workers or both are killed at a random instant."""
    client = scene.begin(**environment)
    _let_run(scene, client)
    if client.poll() is not None:
        return client.returncode == 0
    victim = scene.draw.choice(("client", "worker", "both"))
    scene.hit[f"kill {victim}: {scene.doing()}"] += 1
    workers = processes_below(client.pid)
    for pid in ([client.pid] if victim == "client" else []) + (workers if victim != "client" else []):
        _kill(pid)
    if victim == "both":
        _kill(client.pid)
    client.wait(timeout=SECONDS)  # after the death of a worker it sees that, and ends by itself
    scene.settle()
    return False


def two(scene: Scene) -> bool:
    """Two clients at once; one of them may be killed."""
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
    scene.hit["clock"] += 1
    path = os.pathsep.join(filter(None, (str(CLOCK), os.environ.get("PYTHONPATH"))))
    environment = {"PYTHONPATH": path, "RECIPE_TEST_CLOCK": str(scene.draw.random())}
    if scene.draw.random() < 0.5:
        return kill(scene, **environment)
    ended = scene.begin(**environment).wait(timeout=2 * SECONDS)
    scene.settle()
    if ended != 0:
        scene.lost.append(f"with a jumping clock the run ended with {ended}")
    return ended == 0


def full(scene: Scene) -> bool:
    """The disk fills up at a random write. The home lies on a small file system of its own."""
    used = _used(scene.home)
    limit = used + int(scene.draw.uniform(0, max(0, scene.room - used) + (1 << 20)))
    before = scene.log.stat().st_size if scene.log.exists() else 0
    _resize(scene.home, limit)
    ended = scene.begin().wait(timeout=2 * SECONDS)
    scene.settle()
    scene.hit["full disk: " + ("enough room" if ended == 0 else scene.doing())] += 1
    _resize(scene.home, LARGE)
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
    for _ in range(scene.draw.choice((1, 1, 2, 3))):
        victims = _victims(scene.home)
        if victims:
            kind = scene.draw.choice(sorted(victims))
            path = scene.draw.choice(victims[kind])
            how = scene.draw.choice((_flip, _cut))
            how(path, scene.draw)
            scene.hit[f"damage {kind}: {how.__name__.strip('_')}"] += 1
    verified = call("verify", "--home", scene.home, "--repair")
    if verified.returncode or "Traceback" in verified.stderr:
        scene.lost.append(f"verify ended with {verified.returncode}: {verified.stdout} {verified.stderr}")
    return False


KINDS: dict[str, Disturbance] = {"kill": kill, "two": two, "clock": clock, "full": full, "damage": damage}
LARGE = 4 << 30
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


@contextlib.contextmanager
def small_disk(home: Path, *, wanted: bool) -> Iterator[None]:
    """A file system of its own for a home, whose size can be changed, if it is wanted."""
    home.mkdir()
    if not wanted:
        yield
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={LARGE}", "tmpfs", str(home)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(home)], check=True)


def can_mount(folder: Path) -> bool:
    """Whether this user may mount a file system here."""
    folder.mkdir(exist_ok=True)
    tried = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if tried.returncode == 0:
        subprocess.run(["umount", str(folder)], check=True)
    return tried.returncode == 0


def _resize(home: Path, size: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(home)], check=True)


def _used(home: Path) -> int:
    found = os.statvfs(home)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def processes_below(client: int) -> list[int]:
    """All processes that the client has started, and theirs."""
    found: list[int] = []
    for entry in sorted(Path("/proc").iterdir(), key=lambda path: path.name.zfill(9)):
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            if parent == client or parent in found:
                found.append(int(entry.name))
    return found


def _let_run(scene: Scene, client: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + scene.draw.uniform(0.3, scene.seconds)
    while time.monotonic() < deadline and client.poll() is None:
        time.sleep(0.002)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
