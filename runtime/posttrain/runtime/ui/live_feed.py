"""The blocks of a live page, each with the revision in which it last changed.

A client names the last revision that it has; it receives the blocks that changed since. All clients of a page
share one feed, which renders at most once per interval.
"""

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# Rendering takes at most this share of the time, whatever a run costs to read.
_MAX_SHARE = 0.2


@dataclass(frozen=True)
class _Block:
    html: str
    revision: int


class LiveFeed:
    """`render` returns the HTML of each block, by the id of its element, in the order of the page."""

    def __init__(self, render: Callable[[], Mapping[str, str]], seconds: float) -> None:
        self._render = render
        self._seconds = seconds
        # Revisions of another server, or of a feed that was dropped, are not those of this one.
        self._epoch = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._blocks: dict[str, _Block] = {}
        self._order: list[str] = []
        self._revision = 0
        self._due = 0.0

    def refresh(self) -> None:
        """Render the blocks if the interval is over. Another thread that does so already counts."""
        with self._lock:
            began = time.monotonic()
            if began < self._due:
                return
            rendered = self._render()
            self._revision += 1
            order = list(rendered)
            changed = {
                name: _Block(html, self._revision)
                for name, html in rendered.items()
                if name not in self._blocks or self._blocks[name].html != html
            }
            if not changed and order == self._order:
                self._revision -= 1
            self._blocks = {name: changed.get(name) or self._blocks[name] for name in order}
            self._order = order
            now = time.monotonic()
            self._due = now + max(self._seconds, (now - began) * (1 / _MAX_SHARE - 1))

    def expire(self) -> None:
        """Render at the next `refresh`."""
        self._due = 0.0

    def seconds_left(self) -> float:
        """The time until the next rendering."""
        return max(0.0, self._due - time.monotonic())

    def page(self) -> tuple[Mapping[str, str], str]:
        """All blocks, and the revision that they have."""
        with self._lock:
            return {name: block.html for name, block in self._blocks.items()}, self._identity()

    def changes(self, after: str) -> tuple[str, str] | None:
        """The blocks that changed after a revision as JSON, and the new revision; None without changes."""
        with self._lock:
            epoch, _, number = after.partition("-")
            known = int(number) if epoch == self._epoch and number.isdecimal() else 0
            if known >= self._revision:
                return None
            changed = {name: block.html for name, block in self._blocks.items() if block.revision > known}
            return json.dumps({"order": self._order, "blocks": changed}), self._identity()

    def _identity(self) -> str:
        return f"{self._epoch}-{self._revision}"
