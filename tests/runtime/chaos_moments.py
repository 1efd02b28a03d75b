"""When a run is killed, and what it was doing at that instant: both told by the files of its home.

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

from posttrain.runtime.keeping.seals import read_sealed

Signs = Callable[[Path], set[tuple[str, int]]]
_NAME = re.compile(r"checkpoint-(\d+)\Z")
_PATIENCE = 120.0  # seconds to wait for what is aimed at


@dataclass(frozen=True)
class Aim:
    """Something to wait for, and the longest time after it to strike."""

    weight: float
    signs: Signs | None
    longest: float


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _under_way(home: Path) -> Iterator[str]:
    for entry in _entries(f"{home}/work"):
        if not entry.name.endswith(".lock"):
            yield entry.path


def _there(path: str, *, size: bool = False) -> set[tuple[str, int]]:
    """A file by its name and its number, so that a new one of the same name is another one."""
    try:
        found = Path(path).stat()
    except OSError:
        return set()
    return {(path, found.st_size if size else found.st_ino)}


def _each(name: str, *, size: bool = False) -> Signs:
    """The files of this name in the folders of steps under way."""

    def signs(home: Path) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for work in _under_way(home):
            found |= _there(f"{work}/{name}", size=size)
        return found

    return signs


def _within(folder: str, name: str = "") -> Signs:
    """What lies in a folder of each step under way; with a name, the file of that name in each of those."""

    def signs(home: Path) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for work in _under_way(home):
            for entry in _entries(f"{work}/{folder}"):
                if folder == "checkpoints" and not _NAME.match(entry.name):
                    continue
                found |= _there(f"{entry.path}/{name}" if name else entry.path)
        return found

    return signs


def _stored(home: Path) -> set[tuple[str, int]]:
    return {(entry.path, entry.inode()) for entry in _entries(f"{home}/store")}


# How often each is aimed at, and how long after it at most. "anywhere" means anywhere in a whole run.
AIMS: Mapping[str, Aim] = {
    "anywhere": Aim(0.17, None, 1.0),
    "start of a step": Aim(0.05, _each("job.json"), 0.5),
    "training": Aim(0.25, _each("record/events.jsonl", size=True), 0.7),
    "checkpoint begun": Aim(0.22, _within("checkpoints"), 0.03),
    "checkpoint sealed": Aim(0.08, _within("checkpoints", "complete.json"), 0.006),
    "product begun": Aim(0.05, _within("files"), 0.04),
    "receipt": Aim(0.07, _each("receipt.json"), 0.012),
    "commit begun": Aim(0.08, _each("commit"), 0.012),
    "commit done": Aim(0.03, _stored, 0.004),
}


def await_moment(
    home: Path, draw: random.Random, seconds: float, alive: Callable[[], bool]
) -> tuple[str, float]:
    """Wait for an instant that is drawn; the aim and the delay after it. Ends early with the client."""
    (name,) = draw.choices(list(AIMS), [aim.weight for aim in AIMS.values()])
    aim = AIMS[name]
    delay = draw.uniform(0, aim.longest if aim.signs else seconds)
    if aim.signs is not None:
        before = aim.signs(home)
        given_up = time.monotonic() + _PATIENCE
        while alive() and time.monotonic() < given_up and not aim.signs(home) - before:
            time.sleep(0.0005)
    until = time.monotonic() + delay
    while alive() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.05))
    return name, delay


@dataclass(frozen=True)
class Sight:
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
class Seen:
    """What a look at a home told."""

    sights: list[Sight] = field(default_factory=list[Sight])
    # Receipts of steps that have finished without being in the store: the key, and how often it had begun.
    finished: dict[str, int] = field(default_factory=dict[str, int])
    # Steps whose product is in the store, and whose workplace is there all the same.
    committed: set[str] = field(default_factory=set[str])

    def phase(self, otherwise: str) -> str:
        return max((sight.phase for sight in self.sights), key=PHASES.index, default=otherwise)


def attempts(home: Path) -> dict[str, int]:
    """The newest attempt at each step under way."""
    jobs = {Path(work).name: _json(Path(work) / "job.json") for work in _under_way(home)}
    return {key: job["attempt"] for key, job in jobs.items() if job is not None}


def look(
    home: Path, earlier: Mapping[str, int] | None = None, committed: Collection[str] | None = None
) -> Seen:
    """What the steps under way were doing when they were cut off. Nobody may be at work there now.

    A step of which no attempt has begun since the `earlier` ones is not under way: it only lies there. So
    does one that was `committed` when somebody looked before.
    """
    seen = Seen()
    now = attempts(home)
    for work in map(Path, sorted(_under_way(home))):
        if (home / "store" / work.name).exists():  # only its workplace is still to be cleared away
            seen.committed.add(work.name)
            if work.name not in (committed or ()):
                seen.sights.append(Sight(work.name[:10], "a commit"))
            continue
        if read_sealed(work / "receipt.json") is not None:
            seen.finished[work.name] = begun(_record(work))
        if earlier and earlier.get(work.name) == now.get(work.name) and not (work / "commit").exists():
            continue
        step = _json(_record(work) / "step.json")
        if step is not None:
            seen.sights.append(_sight(work, step, _events(_record(work) / "events.jsonl")))
    return seen


def _record(work: Path) -> Path:
    """A commit moves it."""
    return work / "record" if (work / "record").exists() else work / "commit" / "record"


def begun(record: Path) -> int:
    """How often a step has begun, by its own word."""
    return sum(event["kind"] == "started" for event in _events(record / "events.jsonl"))


def _sight(work: Path, step: Mapping[str, Any], events: list[dict[str, Any]]) -> Sight:
    """What one step was doing, by what it had left in its folder."""
    trains = step["kind"] == "train"
    total = step["params"]["params"]["steps"] if trains else None
    last = _of_the_last_attempt(events)
    done = next((e["step"] for e in reversed(last) if trains and e["kind"] in ("metrics", "resumed")), None)
    job = _json(work / "job.json")
    if (work / "commit").exists():
        phase = "a commit"
    elif read_sealed(work / "receipt.json") is not None:
        phase = "finished, not committed"
    elif job is None or not last or last[0]["attempt"] < job["attempt"]:
        phase = "a step's start"
    elif trains and (torn := _torn_checkpoint(work, done, last)):
        phase = torn
    elif any(event.get("name") == "saving" for event in last):
        phase = "the product is written"
    elif trains:
        phase = "a step's start" if done is None or total is None else _THIRDS[min(2, 3 * done // total)]
    else:
        phase = "generating, measuring, other work"
    return Sight(step["id"], phase, done, total)


_THIRDS = PHASES[4:7]


def _torn_checkpoint(work: Path, done: int | None, events: list[dict[str, Any]]) -> str:
    """Whether a checkpoint was half written or half removed in this attempt."""
    entries = _entries(f"{work}/checkpoints")
    found = {int(name[1]): Path(e.path) for e in entries if (name := _NAME.match(e.name))}
    torn = [step for step, path in found.items() if not (path / "complete.json").exists()]
    if done in torn:
        return "a checkpoint is written"
    return "an old checkpoint is removed" if torn and events[-1]["kind"] == "checkpoint" else ""


def _of_the_last_attempt(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    starts = [place for place, event in enumerate(events) if event["kind"] == "started"]
    return events[starts[-1] :] if starts else []


def _events(path: Path) -> list[dict[str, Any]]:
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


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
