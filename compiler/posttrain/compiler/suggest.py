"""Did-you-mean: the nearest legal word to one that is not."""

from collections.abc import Iterable


def nearest(word: str, legal: Iterable[str]) -> str | None:
    """The legal word a person most likely meant, or None when none is near."""
    folded = _fold(word)
    best: tuple[int, str] | None = None
    for candidate in legal:
        other = _fold(candidate)
        limit = max(1, min(len(folded), len(other)) // 3 + 1)
        distance = edits(folded, other, limit)
        if min(len(folded), len(other)) >= 3 and (folded.startswith(other) or other.startswith(folded)):
            distance = min(distance, limit)  # a word written out, or cut short
        if distance <= limit and (best is None or (distance, candidate) < best):
            best = (distance, candidate)
    return best[1] if best else None


def hint(word: str, legal: Iterable[str], *, what: str = "") -> tuple[str, str | None]:
    """A help sentence and the replacement it proposes, if any."""
    known = sorted(set(legal))
    meant = nearest(word, known)
    if meant is not None:
        return f"did you mean `{meant}`?", meant
    if not known:
        return f"there are no {what}" if what else "", None
    shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
    return f"{what or 'known here'}: {shown}", None


def edits(left: str, right: str, limit: int) -> int:
    """Insertions, deletions, replacements and swaps between two words; limit + 1 when more."""
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


def _fold(word: str) -> str:
    return word.lower().replace("-", "_")
