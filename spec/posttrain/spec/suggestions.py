"""Did-you-mean suggestions: the legal word that is closest to an unknown one."""

from collections.abc import Iterable, Sequence

# A suggestion also lists all legal words if there are at most this many.
_SHORT_LIST = 9
_MAX_SHOWN = 12


def closest_match(word: str, legal: Iterable[str]) -> str | None:
    """The legal word that was most likely meant, or None if no word is close."""
    folded = _normalize(word)
    best: tuple[int, int, str] | None = None
    for candidate in legal:
        distance = _match_distance(folded, _normalize(candidate)) if candidate else None
        if distance is not None:
            best = min(best or (distance, 0, candidate), (distance, -len(candidate), candidate))
    return best[2] if best else None


def _match_distance(word: str, other: str) -> int | None:
    """The distance between two words; None if it is too large."""
    shorter = min(len(word), len(other))
    limit = shorter // 3 + 1 if shorter > 2 else shorter - 1
    distance = edit_distance(word, other, limit) if limit else int(word != other)
    if distance <= limit:
        return distance
    if set(other.split("_")) < set(word.split("_")) and len(other) > 2:
        return 2  # the same word with a prefix or suffix: max_steps for steps
    if shorter >= 3 and " " not in word and (word.startswith(other) or other.startswith(word)):
        return limit  # an abbreviation
    return None


def hint(word: str, legal: Iterable[str], *, what: str = "") -> tuple[str, str | None]:
    """A help sentence, and the replacement that it suggests, if any."""
    known = sorted(set(legal) - {""})
    meant = closest_match(word, known)
    if meant is None:
        return format_choices(known, what), None
    return did_you_mean(meant, known, what), meant


def did_you_mean(meant: str, known: Sequence[str], what: str) -> str:
    """A suggestion, with the list of legal words if it is short."""
    few = 1 < len(known) <= _SHORT_LIST
    return f"did you mean `{meant}`?" + (f" {format_choices(known, what)}" if few else "")


def format_choices(known: Sequence[str], what: str) -> str:
    """The legal words, truncated to a readable number."""
    if not known:
        return f"there are no {what}" if what else ""
    more = f", and {len(known) - _MAX_SHOWN} more" if len(known) > _MAX_SHOWN + 1 else ""
    shown = ", ".join(known[:_MAX_SHOWN] if more else known)
    return f"{what or 'known here'}: {shown}{more}"


def edit_distance(left: str, right: str, limit: int) -> int:
    """The number of insertions, deletions, replacements and swaps between two words, at most limit + 1."""
    if abs(len(left) - len(right)) > limit or max(len(left), len(right)) > 64:
        return limit + 1
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        following = [i]
        for j, b in enumerate(right, 1):
            cost = min(row[j] + 1, following[j - 1] + 1, row[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            following.append(cost)
        before, row = row, following
    return row[-1]


def _normalize(word: str) -> str:
    return word.lower().replace("-", "_")
