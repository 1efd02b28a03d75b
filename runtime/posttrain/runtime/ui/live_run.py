"""A run as a live page: the sections of its report, what runs now, and the logs."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from posttrain.runtime.inspection.run_lookup import UnknownName
from posttrain.runtime.inspection.step_log import NoLog, find_log
from posttrain.runtime.report.markup import Markup, script_json, tag
from posttrain.runtime.report.number_format import format_size
from posttrain.runtime.report.page import page_sections, page_title
from posttrain.runtime.report.page_frame import PageSection, navigation, page_section
from posttrain.runtime.report.run_reader import read_run, run_secrets
from posttrain.runtime.report.run_record import RunRecord, StepEvents, StepRecord
from posttrain.runtime.report.run_summary import page_header, summary_cards
from posttrain.runtime.report.step_states import state_badge
from posttrain.runtime.store.home import Home
from posttrain.runtime.ui.event_follower import EventFollower
from posttrain.runtime.ui.live_document import connection_badge, live_document
from posttrain.runtime.ui.resource_usage import GpuMonitor, Usage, disk_usage, load_text, memory_usage
from posttrain.runtime.ui.run_index import is_running, step_progress

# The time for new events in one rendering of a page. A thread reads the rest of a long file, as long as
# somebody looks at the page.
_READ_SECONDS = 0.4
_READ_TURN_SECONDS = 0.1
_LOOKED_AT_SECONDS = 120.0
_UNFINISHED = ("running", "queued")
# Blocks above the sections of the report.
OUTSIDE = ("summary", "stop", "now", "navigation")


class LiveRun:
    """Renders a run again and again, and reads only what was appended to its events."""

    def __init__(
        self, home: Home, folder: Path, gpus: GpuMonitor, environment: Mapping[str, str] | None = None
    ) -> None:
        self.home, self.folder = home, folder
        self._gpus, self._environment = gpus, os.environ if environment is None else environment
        self._followers: dict[Path, EventFollower] = {}
        self._deadline = 0.0
        self._reader: threading.Thread | None = None
        self._is_stopping = False
        self._stop_lock = threading.Lock()
        self.title = folder.name
        # The values to mask; None until the plan is read.
        self.secrets: tuple[str, ...] | None = None

    def begin_stop(self) -> bool:
        """Whether this is the first request to stop the run: a second signal would kill its steps."""
        with self._stop_lock:
            is_first, self._is_stopping = not self._is_stopping, True
            return is_first

    def end_stop(self) -> None:
        """Forget a request that was refused."""
        self._is_stopping = False

    def blocks(self) -> dict[str, str]:
        """The blocks of the page by id. A run that cannot be shown is a page with the problem."""
        try:
            return self._blocks()
        except Exception as error:  # a home can contain anything
            words = f"This run cannot be shown: {error or type(error).__name__}"
            return {"summary": _summary(tag("p", words, class_="read-error s-warning"))}

    def _blocks(self) -> dict[str, str]:
        self._deadline = time.monotonic() + _READ_SECONDS
        read = read_run(self.home, self.folder, self._environment, read_events=self._read_events)
        run = self._with_liveness(read)
        self.title = page_title(run)
        self.secrets = run_secrets(run.plan, self._environment)
        sections = page_sections(run)
        logs = self._log_section(run)
        titles = [(one.name, one.title) for one in sections] + ([("logs", "Logs")] if logs else [])
        found = {
            "summary": _summary(page_header(run), summary_cards(run)),
            "stop": self._stop_block(run),
            "now": self._now_block(run),
            "navigation": navigation(titles),
        }
        found |= {section.name: page_section(section) for section in sections}
        if logs is not None:
            found["logs"] = logs
            found["log-sizes"] = self._log_sizes(run)
        return {name: str(html) for name, html in found.items()}

    def document(self, blocks: Mapping[str, str], revision: str) -> str:
        link = tag("a", "All runs", href="../../../")
        above = tag(
            "div", link, connection_badge(), class_="head", role="navigation", aria_label="Other runs"
        )
        return live_document(self.title, "../../../", blocks, revision, above=above, outside=OUTSIDE)

    def _read_events(self, path: Path, secrets: tuple[str, ...], *, episodes: bool) -> StepEvents:
        follower = self._followers.get(path)
        if follower is None:
            follower = self._followers[path] = EventFollower(path, secrets, episodes=episodes)
        follower.read(self._deadline)
        if follower.unread[0] and (self._reader is None or not self._reader.is_alive()):
            self._reader = threading.Thread(target=self._read_rest, daemon=True)
            self._reader.start()
        return follower.events()

    def _read_rest(self) -> None:
        """Read the events that no rendering had the time for."""
        while time.monotonic() - self._deadline < _LOOKED_AT_SECONDS:
            behind = [one for one in list(self._followers.values()) if one.unread[0]]
            if not behind:
                return
            for follower in behind:
                follower.read(time.monotonic() + _READ_TURN_SECONDS)

    def _with_liveness(self, run: RunRecord) -> RunRecord:
        """Steps of a client that was killed are interrupted, whatever the journal says."""
        if run.result is not None:
            return run
        if is_running(self.home, self.folder):
            # The time until now, in whole seconds: a page whose times stand still seems to hang.
            now = float(int(time.time()))
            return replace(run, is_running=True, steps=tuple(_timed(one, now) for one in run.steps))
        steps = [replace(one, state="interrupted") if one.state in _UNFINISHED else one for one in run.steps]
        return replace(run, steps=tuple(steps))

    def _stop_block(self, run: RunRecord) -> Markup:
        if not run.is_running:
            return tag("div", id="stop")
        if self._is_stopping:
            words = "Stopping: each step saves a checkpoint and ends. `recipe run` resumes it."
            return tag("div", tag("p", words, class_="sentence"), id="stop", class_="wrap")
        button = tag("button", "Stop at a checkpoint", type="submit")
        form = tag("form", button, method="post", action="stop", id="stop-form")
        return tag("div", form, id="stop", class_="wrap")

    def _now_block(self, run: RunRecord) -> Markup:
        """The running steps, the resources of the machine, and what is still to be read."""
        steps = [self._running_card(record) for record in run.steps if record.state in _UNFINISHED]
        parts: list[Markup] = [tag("div", steps, class_="running")] if steps else []
        if run.is_running:
            usages = [memory_usage(), disk_usage(self.home.root), *self._gpus.usage()]
            meters = [_meter(usage) for usage in usages if usage is not None]
            parts.append(tag("div", meters, tag("p", load_text(), class_="soft"), class_="meters"))
        parts += self._unread_note()
        return tag("section", parts, id="now", class_="wrap", aria_label="Now")

    def _running_card(self, record: StepRecord) -> Markup:
        text = step_progress(self.home.workdir(record.key) / "record" / "events.jsonl")
        return tag(
            "p", state_badge(record.state), tag("b", record.id), tag("span", text or "started"), class_="live"
        )

    def _unread_note(self) -> Iterator[Markup]:
        amounts = [follower.unread for follower in self._followers.values()]
        unread, size = sum(left for left, _ in amounts), sum(all_bytes for _, all_bytes in amounts)
        if unread:
            words = (
                f"Reading the events: {1 - unread / size:.0%} of {format_size(size)}. Curves grow meanwhile."
            )
            yield tag("p", words, class_="soft")

    def _log_section(self, run: RunRecord) -> Markup | None:
        started = [record for record in run.steps if record.state not in ("waiting", "skipped")]
        if not started:
            return None
        chosen = next((r.id for r in started if r.state in ("failed", "running")), started[-1].id)
        options = [tag("option", r.id, value=r.id, selected=r.id == chosen) for r in started]
        content = tag(
            "div",
            tag("label", "Stage ", tag("select", options, id="log-step")),
            tag("pre", id="log-text", tabindex=0, dir="auto", role="region", aria_label="The log"),
            class_="card",
        )
        return page_section(PageSection("logs", "Logs", content))

    def _log_sizes(self, run: RunRecord) -> Markup:
        """The sizes of the logs: the script asks for what was appended."""
        sizes: dict[str, int] = {}
        for record in run.steps:
            if record.state in (*_UNFINISHED, "failed", "interrupted"):
                with contextlib.suppress(OSError, UnknownName):
                    found = find_log(self.home, self.folder, record.id)
                    if not isinstance(found, NoLog):
                        sizes[record.id] = found.log.stat().st_size
        return tag("script", script_json(sizes), type="application/json", id="log-sizes")


def _timed(record: StepRecord, now: float) -> StepRecord:
    """A running step with the time that it has taken."""
    if record.state != "running" or record.began is None:
        return record
    return replace(record, ended=max(now, record.began))


def _summary(*parts: Markup) -> Markup:
    return tag("div", *parts, id="summary", class_="wrap top")


def _meter(usage: Usage) -> Markup:
    amount = f"{format_size(usage.used)} of {format_size(usage.total)}"
    return tag(
        "div",
        tag("span", usage.name, class_="soft"),
        tag(
            "meter", value=round(usage.share, 3), min=0, max=1, high=0.9, aria_label=f"{usage.name}: {amount}"
        ),
        tag("span", amount),
        tag("span", usage.note, class_="soft") if usage.note else None,
        class_="usage",
    )
