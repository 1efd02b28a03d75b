"""The runs of several homes as a list, the newest first. Whatever is in a home, its other runs are listed."""

import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from posttrain.runtime.event_tail import last_metrics, last_progress
from posttrain.runtime.inspection.run_status import UNFINISHED, interrupted_counts
from posttrain.runtime.report.number_format import finite_or_none
from posttrain.runtime.report.progress_text import progress_text
from posttrain.runtime.store.file_locks import is_held
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.run_labels import LABELS_FILE, RunLabels, read_labels
from posttrain.spec.record import record

PAGE_SIZE = 50
PROBLEM = "problem"
# The filter of the page, in its order.
STATES = ("running", "finished", "failed", "interrupted", "held", "blocked", PROBLEM)
_VERDICTS = ("pass", "fail", "inconclusive")


@record(kw_only=True)
class RunPlace:
    """Where a run is: the number of its home, and the name of its folder."""

    home: int
    name: str


@record(kw_only=True)
class ListedRun:
    """A run as a line of the list."""

    place: RunPlace
    # One of STATES.
    state: str
    # Why the run is not readable.
    problem: str = ""
    began: float | None = None
    ended: float | None = None
    # The number of steps in each state.
    steps: Mapping[str, int]
    # The verdicts of the decided gates, by id.
    gates: Mapping[str, str]
    # What runs: the id and the progress of each step.
    running: tuple[tuple[str, str], ...] = ()
    # The running steps with their keys.
    active: tuple[tuple[str, str], ...] = ()
    # What the user calls it.
    labels: RunLabels = RunLabels()


@record(kw_only=True)
class RunQuery:
    """Which runs to list."""

    text: str = ""
    state: str = ""
    home: int | None = None
    # From 1.
    page: int = 1


@record(kw_only=True)
class RunSelection:
    """A page of the list."""

    runs: Sequence[ListedRun]
    # All runs that fit the query, and all of the homes.
    fitting: int
    total: int
    page: int
    pages: int
    # Homes that are not readable.
    problems: Sequence[str]


_Signature = tuple[object, ...]


class RunIndex:
    """Reads a journal again only when it has changed."""

    def __init__(self, homes: Sequence[Home]) -> None:
        self.homes = tuple(homes)
        self._lock = threading.Lock()
        self._read: dict[RunPlace, tuple[_Signature, ListedRun]] = {}

    def folder(self, place: RunPlace) -> Path:
        return self.homes[place.home].runs / place.name

    def find(self, home: int, name: str) -> RunPlace | None:
        """The run of a home, if its folder exists. The name comes from a URL."""
        if not 0 <= home < len(self.homes) or name in ("", ".", "..") or "/" in name or "\0" in name:
            return None
        place = RunPlace(home=home, name=name)
        try:
            return place if self.folder(place).is_dir() else None
        except OSError:
            return None

    def select(self, query: RunQuery) -> RunSelection:
        problems: list[str] = []
        places = sorted(self._places(problems), key=lambda place: place.name, reverse=True)
        text = query.text.strip().lower()
        fitting = [
            place
            for place in places
            if (query.home is None or place.home == query.home) and self._is_named(place, text)
        ]
        if query.state:  # the only filter that reads all journals
            fitting = [place for place in fitting if self.read(place).state == query.state]
        pages = max(1, -(-len(fitting) // PAGE_SIZE))
        page = min(max(1, query.page), pages)
        shown = fitting[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
        return RunSelection(
            runs=[self.read(place) for place in shown],
            fitting=len(fitting),
            total=len(places),
            page=page,
            pages=pages,
            problems=problems,
        )

    def _is_named(self, place: RunPlace, text: str) -> bool:
        """Whether the name of a run, or one of its labels, contains a text."""
        if text in place.name.lower():
            return True
        try:
            labels = read_labels(self.folder(place))
        except OSError:
            return False
        return any(text in one.lower() for one in (labels.name, *labels.tags, labels.note))

    def read_all(self) -> None:
        """Read every run, so that a filter by state finds them read."""
        for place in sorted(self._places([]), key=lambda place: place.name, reverse=True):
            self.read(place)

    def _places(self, problems: list[str]) -> Iterator[RunPlace]:
        for number, home in enumerate(self.homes):
            try:
                with os.scandir(home.runs) as entries:
                    names = [entry.name for entry in entries if entry.is_dir()]
            except FileNotFoundError:
                continue  # nothing has run there yet
            except OSError as error:
                problems.append(f"{home.root} is not readable: {error.strerror}")
                continue
            yield from (RunPlace(home=number, name=name) for name in names)

    def read(self, place: RunPlace) -> ListedRun:
        """The line of a run. A run that is not readable is listed with its problem."""
        try:
            found = self._read_cached(place)
            return self._with_progress(found) if found.state == "running" else found
        except Exception as error:  # a home can contain anything
            return ListedRun(place=place, state=PROBLEM, problem=_problem_text(error), steps={}, gates={})

    def _read_cached(self, place: RunPlace) -> ListedRun:
        folder = self.folder(place)
        signature = tuple(
            _file_signature(folder / name)
            for name in ("journal.sqlite", "journal.sqlite-wal", "plan.json", LABELS_FILE)
        )
        with self._lock:
            known = self._read.get(place)
        if known is None or known[0] != signature:
            known = (signature, _read_run(place, folder))
            with self._lock:
                self._read[place] = known
        found = known[1]
        if (
            found.state == "interrupted"
            and found.ended is None
            and is_running(self.homes[place.home], folder)
        ):
            return replace(found, state="running")
        return (
            replace(found, steps=interrupted_counts(found.steps)) if found.state == "interrupted" else found
        )

    def _with_progress(self, found: ListedRun) -> ListedRun:
        home = self.homes[found.place.home]
        running = [
            (id, step_progress(home.workdir(key) / "record" / "events.jsonl")) for id, key in found.active
        ]
        return replace(found, running=tuple(running))


def is_running(home: Home, run: Path) -> bool:
    """Whether a client holds the lock of a run, as far as this user can see."""
    try:
        return is_held(home.run_lock(run))
    except OSError:
        return False


def step_progress(events: Path) -> str:
    """The progress of a running step on one line: units, rate, remaining time, metrics."""
    progress, metrics = last_progress(events), last_metrics(events)
    return progress_text({**progress, "metrics": metrics}) if progress is not None else ""


def _read_run(place: RunPlace, folder: Path) -> ListedRun:
    journal = Journal(folder / "journal.sqlite", read=True)
    try:
        began, ended = finite_or_none(journal.get("began")), finite_or_none(journal.get("ended"))
        result, entries = journal.get("result"), journal.entries()
    finally:
        journal.close()
    verdicts = {entry.id: entry.facts.get("verdict") for entry in entries}
    state = run_state(result)
    return ListedRun(
        place=place,
        # Who holds the lock of a run without a result decides whether it is running.
        state=state,
        problem="" if (folder / "plan.json").is_file() else "its plan is missing",
        began=began,
        ended=ended if result is not None else None,
        steps=Counter(entry.state for entry in entries),
        gates={id: str(verdict) for id, verdict in verdicts.items() if verdict in _VERDICTS},
        active=tuple((e.id, e.key) for e in entries if e.state in UNFINISHED),
        labels=read_labels(folder),
    )


def run_state(result: object) -> str:
    """The state in the list of a run with this result in its journal; None means that it has not ended."""
    if result is None:
        return "interrupted"
    words = str(result).split(" and ")
    return next((state for state in STATES[1:-1] if state in words), "blocked")


def _file_signature(path: Path) -> object:
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino


def _problem_text(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"its files are not readable: {error.strerror or error}"
    return str(error) or type(error).__name__
