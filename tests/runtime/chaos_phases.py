"""When a run is killed, and what it was doing at that instant: both read from the files of its home.

A run spends most of its time importing and training; what may go wrong goes wrong while a checkpoint
is written or a product committed. So an instant is drawn in two ways: anywhere in the time that a run
takes, or a little after something has newly appeared in the home.
"""

import json
import os
import random
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posttrain.runtime.store.checksums import read_checksummed

FileWatch = Callable[[Path], set[tuple[str, int]]]
_CHECKPOINT_NAME = re.compile(r"checkpoint-(\d+)\Z")
_TIMEOUT_SECONDS = 120.0  # seconds to wait for what is aimed at


@dataclass(frozen=True)
class KillPoint:
    """Something to wait for, and the longest time after it to strike."""

    weight: float
    watch: FileWatch | None
    max_delay: float


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _workdirs(home: Path) -> Iterator[str]:
    for entry in _entries(f"{home}/work"):
        if not entry.name.endswith(".lock"):
            yield entry.path


def _file_identity(path: str, *, size: bool = False) -> set[tuple[str, int]]:
    """A file by its name and its number, so that a new one of the same name is another one."""
    try:
        found = Path(path).stat()
    except OSError:
        return set()
    return {(path, found.st_size if size else found.st_ino)}


def _watch_file(name: str, *, size: bool = False) -> FileWatch:
    """The files of this name in the folders of steps under way."""

    def signs(home: Path) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for work in _workdirs(home):
            found |= _file_identity(f"{work}/{name}", size=size)
        return found

    return signs


def _watch_folder(folder: str, name: str = "") -> FileWatch:
    """What lies in a folder of each step under way; with a name, the file of that name in each of those."""

    def signs(home: Path) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for work in _workdirs(home):
            for entry in _entries(f"{work}/{folder}"):
                if folder == "checkpoints" and not _CHECKPOINT_NAME.match(entry.name):
                    continue
                found |= _file_identity(f"{entry.path}/{name}" if name else entry.path)
        return found

    return signs


def _stored_products(home: Path) -> set[tuple[str, int]]:
    return {(entry.path, entry.inode()) for entry in _entries(f"{home}/store")}


# How often each is aimed at, and how long after it at most. "anywhere" means anywhere in a whole run.
KILL_POINTS: Mapping[str, KillPoint] = {
    "anywhere": KillPoint(0.17, None, 1.0),
    "start of a step": KillPoint(0.05, _watch_file("job.json"), 0.5),
    "training": KillPoint(0.25, _watch_file("record/events.jsonl", size=True), 0.7),
    "checkpoint begun": KillPoint(0.22, _watch_folder("checkpoints"), 0.03),
    "checkpoint finalized": KillPoint(0.08, _watch_folder("checkpoints", "complete.json"), 0.006),
    "product begun": KillPoint(0.05, _watch_folder("files"), 0.04),
    "receipt": KillPoint(0.07, _watch_file("receipt.json"), 0.012),
    "commit begun": KillPoint(0.08, _watch_file("commit"), 0.012),
    "commit done": KillPoint(0.03, _stored_products, 0.004),
}


def await_kill_point(
    home: Path, draw: random.Random, seconds: float, alive: Callable[[], bool]
) -> tuple[str, float]:
    """Wait for an instant that is drawn; the aim and the delay after it. Ends early with the client."""
    (name,) = draw.choices(list(KILL_POINTS), [aim.weight for aim in KILL_POINTS.values()])
    aim = KILL_POINTS[name]
    delay = draw.uniform(0, aim.max_delay if aim.watch else seconds)
    if aim.watch is not None:
        before = aim.watch(home)
        given_up = time.monotonic() + _TIMEOUT_SECONDS
        while alive() and time.monotonic() < given_up and not aim.watch(home) - before:
            time.sleep(0.0005)
    until = time.monotonic() + delay
    while alive() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.05))
    return name, delay


@dataclass(frozen=True)
class StepPhase:
    """What a step was doing."""

    id: str
    phase: str
    # The optimizer step that it had done last, of how many.
    done: int | None = None
    total: int | None = None


# The more telling ones last: of several steps under way, the instant is called by the last of these.
PHASES = (
    "the client's own start",
    "between steps",
    "a step's start",
    "generating, measuring, other work",
    "training, first third",
    "training, second third",
    "training, last third",
    "the product is written",
    "an old checkpoint is removed",
    "a checkpoint is written",
    "finished, not committed",
    "a commit",
)


@dataclass
class HomeState:
    """The state of a home at one instant."""

    steps: list[StepPhase] = field(default_factory=list[StepPhase])
    # Receipts of steps that have finished without being in the store: the key, and how often it had begun.
    finished: dict[str, int] = field(default_factory=dict[str, int])
    # Steps whose product is in the store, and whose working directory still exists.
    committed: set[str] = field(default_factory=set[str])

    def phase(self, otherwise: str) -> str:
        return max((sight.phase for sight in self.steps), key=PHASES.index, default=otherwise)


def read_attempts(home: Path) -> dict[str, int]:
    """The newest attempt at each step under way."""
    jobs = {Path(work).name: _read_json_file(Path(work) / "job.json") for work in _workdirs(home)}
    return {key: job["attempt"] for key, job in jobs.items() if job is not None}


def inspect_home(
    home: Path, earlier: Mapping[str, int] | None = None, committed: Collection[str] | None = None
) -> HomeState:
    """What the steps under way were doing when they were cut off. Nobody may be at work there now.

    A step of which no attempt has begun since the `earlier` ones is not under way: it only lies there. So
    does one that was `committed` when somebody looked before.
    """
    seen = HomeState()
    now = read_attempts(home)
    for work in map(Path, sorted(_workdirs(home))):
        if (home / "store" / work.name).exists():  # only its working directory is still to be removed
            seen.committed.add(work.name)
            if work.name not in (committed or ()):
                seen.steps.append(StepPhase(work.name[:10], "a commit"))
            continue
        if read_checksummed(work / "receipt.json") is not None:
            seen.finished[work.name] = count_starts(_record_dir(work))
        if earlier and earlier.get(work.name) == now.get(work.name) and not (work / "commit").exists():
            continue
        step = _read_json_file(_record_dir(work) / "step.json")
        if step is not None:
            seen.steps.append(_step_phase(work, step, _read_events(_record_dir(work) / "events.jsonl")))
    return seen


def _record_dir(work: Path) -> Path:
    """A commit moves it."""
    return work / "record" if (work / "record").exists() else work / "commit" / "record"


def count_starts(record: Path) -> int:
    """How often a step has begun, by its own word."""
    return sum(event["kind"] == "started" for event in _read_events(record / "events.jsonl"))


def _step_phase(work: Path, step: Mapping[str, Any], events: list[dict[str, Any]]) -> StepPhase:
    """What one step was doing, by what it had left in its folder."""
    trains = step["kind"] == "train"
    total = step["params"]["params"]["max_steps"] if trains else None
    last = _last_attempt_events(events)
    done = next((e["step"] for e in reversed(last) if trains and e["kind"] in ("metrics", "resumed")), None)
    job = _read_json_file(work / "job.json")
    if (work / "commit").exists():
        phase = "a commit"
    elif read_checksummed(work / "receipt.json") is not None:
        phase = "finished, not committed"
    elif job is None or not last or last[0]["attempt"] < job["attempt"]:
        phase = "a step's start"
    elif trains and (torn := _partial_checkpoint(work, done, last)):
        phase = torn
    elif any(event.get("name") == "saving" for event in last):
        phase = "the product is written"
    elif trains:
        phase = (
            "a step's start" if done is None or total is None else _TRAINING_PHASES[min(2, 3 * done // total)]
        )
    else:
        phase = "generating, measuring, other work"
    return StepPhase(step["id"], phase, done, total)


_TRAINING_PHASES = PHASES[4:7]


def _partial_checkpoint(work: Path, done: int | None, events: list[dict[str, Any]]) -> str:
    """Whether a checkpoint was half written or half removed in this attempt."""
    entries = _entries(f"{work}/checkpoints")
    found = {int(name[1]): Path(e.path) for e in entries if (name := _CHECKPOINT_NAME.match(e.name))}
    torn = [step for step, path in found.items() if not (path / "complete.json").exists()]
    if done in torn:
        return "a checkpoint is written"
    return "an old checkpoint is removed" if torn and events[-1]["kind"] == "checkpoint" else ""


def _last_attempt_events(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    starts = [place for place, event in enumerate(events) if event["kind"] == "started"]
    return events[starts[-1] :] if starts else []


def _read_events(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    found: list[dict[str, Any]] = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:  # cut short by a kill
            continue
    return found


def _read_json_file(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
