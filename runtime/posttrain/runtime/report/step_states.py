"""Labels and icons of the step states. Color is never the only cue."""

from collections import Counter
from collections.abc import Iterable

from posttrain.runtime.report.markup import Markup, tag

LABELS = {
    "done": "done",
    "cached": "cached",
    "running": "running",
    "queued": "in the queue",
    "failed": "failed",
    "interrupted": "interrupted",
    "held": "held back",
    "blocked": "blocked",
    "skipped": "skipped",
    "waiting": "not started",
    "unknown": "unknown",
    "pass": "pass",
    "fail": "fail",
    "inconclusive": "inconclusive",
    "warning": "warning",
}
# SVG path data in a 16 by 16 box.
_ICONS = {
    "done": "M3.5 8.5l3 3 6-7",
    "pass": "M3.5 8.5l3 3 6-7",
    "cached": "M12.5 8a4.5 4.5 0 1 1-1.4-3.3M11.5 2.2v2.8h-2.8",
    "running": "M5.5 3.8l6 4.2-6 4.2z",
    "queued": "M8 3.2v4.8l3 2M13 8a5 5 0 1 1-10 0a5 5 0 0 1 10 0",
    "failed": "M4.2 4.2l7.6 7.6M11.8 4.2l-7.6 7.6",
    "fail": "M4.2 4.2l7.6 7.6M11.8 4.2l-7.6 7.6",
    "interrupted": "M4.6 4.6h6.8v6.8h-6.8z",
    "held": "M5.8 4v8M10.2 4v8",
    "blocked": "M3.8 8h8.4",
    "skipped": "M4.2 4.2l5 3.8-5 3.8M12 4v8",
    "waiting": "M4 8h.1M8 8h.1M12 8h.1",
    "unknown": "M5.6 6.2a2.4 2.4 0 1 1 3.3 2.2c-.6.3-.9.7-.9 1.3M8 12.3h.1",
    "inconclusive": "M5.6 6.2a2.4 2.4 0 1 1 3.3 2.2c-.6.3-.9.7-.9 1.3M8 12.3h.1",
    "warning": "M8 2.8l5.6 10h-11.2zM8 6.6v2.8M8 11.2h.1",
}


def known_state(state: str) -> str:
    return state if state in _ICONS else "unknown"


def state_label(state: str) -> str:
    return LABELS[known_state(state)]


def icon_path(state: str) -> Markup:
    """The icon of a state, for use in an SVG."""
    return tag("path", d=_ICONS[known_state(state)], class_="sign")


def state_icon(state: str) -> Markup:
    """The icon of a state, for inline text; hidden from screen readers."""
    return tag("svg", icon_path(state), class_="icon", viewBox="0 0 16 16", aria_hidden="true")


def state_badge(state: str, words: str | None = None) -> Markup:
    """A state as text, with its icon and color."""
    return tag("span", state_icon(state), words or state_label(state), class_=f"pill s-{known_state(state)}")


def count_states(states: Iterable[str]) -> list[tuple[str, int]]:
    """The number of steps in each state, in a fixed order."""
    found = Counter(map(known_state, states))
    return [(state, found[state]) for state in _ICONS if found[state]]
