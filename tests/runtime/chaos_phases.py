"""Selects when to kill a run, and detects its phase at that time, both from the files of its home.

A run spends most of its time importing and training, but bugs are likely while it writes a checkpoint or
commits a product. So the time is drawn in two ways: uniformly over the duration of a run, or shortly after
a new file appears in the home.
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

from posttrain.runtime.store.workdir import read_receipt
from posttrain.spec.document_json import DocumentError

FileWatch = Callable[[Path], set[tuple[str, int]]]
_CHECKPOINT_NAME = re.compile(r"checkpoint-(\d+)\Z")
_TIMEOUT_SECONDS = 120.0  # seconds to wait for the target


@dataclass(frozen=True)
class KillPoint:
    """A target to wait for, and the longest delay after it."""

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
    """A file by name and inode, which distinguishes a new file of the same name."""
    try:
        found = Path(path).stat()
    except OSError:
        return set()
    return {(path, found.st_size if size else found.st_ino)}


def _watch_file(name: str, *, size: bool = False) -> FileWatch:
    """The files of this name in the working directories."""

    def signs(home: Path) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for work in _workdirs(home):
            found |= _file_identity(f"{work}/{name}", size=size)
        return found

    return signs


def _watch_folder(folder: str, name: str = "") -> FileWatch:
    """The entries of a folder in each working directory; with a name, the file of that name in each."""

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


# The weight of each target, and the longest delay after it. "anywhere" is any time in a run.
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
    """Wait for a random time; returns the target and the delay. Returns early when the client exits."""
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
    """The phase of a step."""

    id: str
    phase: str
    # The last completed optimizer step, and their total.
    done: int | None = None
    total: int | None = None


# In order of significance: with several running steps, the last of these names the phase.
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
    """The state of a home at one time."""

    steps: list[StepPhase] = field(default_factory=list[StepPhase])
    # Steps with a receipt that are not in the store: the key, and the number of its starts.
    finished: dict[str, int] = field(default_factory=dict[str, int])
    # Steps whose product is in the store, and whose working directory still exists.
    committed: set[str] = field(default_factory=set[str])

    def phase(self, otherwise: str) -> str:
        return max((sight.phase for sight in self.steps), key=PHASES.index, default=otherwise)


def read_attempts(home: Path) -> dict[str, int]:
    """The newest attempt of each running step."""
    jobs = {Path(work).name: _read_json_file(Path(work) / "job.json") for work in _workdirs(home)}
    return {key: job["attempt"] for key, job in jobs.items() if job is not None}


def inspect_home(
    home: Path, earlier: Mapping[str, int] | None = None, committed: Collection[str] | None = None
) -> HomeState:
    """The phases of the running steps at the time of the fault. No process may use the home now.

    A step without a new attempt since the `earlier` ones was not running, nor was one that was already
    `committed` in an earlier inspection.
    """
    seen = HomeState()
    now = read_attempts(home)
    for work in map(Path, sorted(_workdirs(home))):
        if (home / "store" / work.name).exists():  # only its working directory is left to remove
            seen.committed.add(work.name)
            if work.name not in (committed or ()):
                seen.steps.append(StepPhase(work.name[:10], "a commit"))
            continue
        if _has_receipt(work):
            seen.finished[work.name] = count_starts(_record_dir(work))
        if earlier and earlier.get(work.name) == now.get(work.name) and not (work / "commit").exists():
            continue
        step = _read_json_file(_record_dir(work) / "step.json")
        if step is not None:
            seen.steps.append(_step_phase(work, step, _read_events(_record_dir(work) / "events.jsonl")))
    return seen


def _has_receipt(work: Path) -> bool:
    try:
        read_receipt(work)
    except DocumentError:
        return False
    return True


def _record_dir(work: Path) -> Path:
    """The record folder of a step, which a commit moves."""
    return work / "record" if (work / "record").exists() else work / "commit" / "record"


def count_starts(record: Path) -> int:
    """The number of starts of a step, from its events."""
    return sum(event["kind"] == "started" for event in _read_events(record / "events.jsonl"))


def _step_phase(work: Path, step: Mapping[str, Any], events: list[dict[str, Any]]) -> StepPhase:
    """The phase of a step, from the files in its folder."""
    trains = step["kind"] == "train"
    total = step["params"]["params"]["max_steps"] if trains else None
    last = _last_attempt_events(events)
    done = next((e["step"] for e in reversed(last) if trains and e["kind"] in ("metrics", "resumed")), None)
    job = _read_json_file(work / "job.json")
    if (work / "commit").exists():
        phase = "a commit"
    elif _has_receipt(work):
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
    """Whether a checkpoint was partly written or partly removed in this attempt."""
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
        except ValueError:  # truncated by a kill
            continue
    return found


def _read_json_file(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
