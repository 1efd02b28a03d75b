"""Compares times of day and dates: 3:30 PM is 15:30, and 2031/4/9 is 2031-04-09."""

import re

from posttrain.grading.context import Outcome

TIME = re.compile(
    r"(?:at\s+)?(\d{1,2}):([0-5]\d)(?::([0-5]\d))?\s*(?:\\text\s*\{\s*|\\mathrm\s*\{\s*)?(?:([ap])\.?\s?m\.?)?\s*\}?"
    r"(?:\s*o'?clock)?",
    re.IGNORECASE,
)
DATE = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})")
Moment = tuple[int, str | None]  # seconds, and the half of the day (a or p) if the text states it


def compare_times(one: str, two: str) -> Outcome | None:
    """Compares two times. None unless both are times and one of them cannot be a ratio (it has 05 or PM)."""
    first, second = TIME.fullmatch(one), TIME.fullmatch(two)
    if first is None or second is None or not (_is_unambiguous(first) or _is_unambiguous(second)):
        return None
    left, right = _parse_moment(first), _parse_moment(second)
    if left is None or right is None:
        return Outcome(False, "an invalid time of day", "text")
    day = (
        12 * 3600
        if (left[1] is None or right[1] is None) and _is_half_day_ambiguous(first, second)
        else 24 * 3600
    )
    same = left[0] % day == right[0] % day
    return Outcome(same, "the same time" if same else "different times", "text")


def compare_dates(one: str, two: str) -> Outcome | None:
    """Compares two dates. None unless both have the year first."""
    first, second = DATE.fullmatch(one), DATE.fullmatch(two)
    if first is None or second is None:
        return None
    same = all(int(first[part]) == int(second[part]) for part in (1, 3, 4))
    return Outcome(same, "the same date" if same else "different dates", "text")


def _is_unambiguous(match: re.Match[str]) -> bool:
    return match[2].startswith("0") or match[3] is not None or match[4] is not None


def _is_half_day_ambiguous(first: re.Match[str], second: re.Match[str]) -> bool:
    """Whether one of the times lacks AM or PM and its hour does not determine it, such as 10:30."""
    bare = [int(match[1]) for match in (first, second) if match[4] is None]
    return len(bare) == 1 and 1 <= bare[0] <= 12


def _parse_moment(match: re.Match[str]) -> Moment | None:
    hour, half = int(match[1]), match[4].lower() if match[4] else None
    if hour > 24 or (half and not 1 <= hour <= 12):
        return None
    hour = hour % 12 + (12 if half == "p" else 0) if half else hour
    return hour * 3600 + int(match[2]) * 60 + int(match[3] or 0), half
