"""Take off what answers are dressed in: boxes, dollars, Markdown, 'the answer is', a full stop."""

import re
from functools import lru_cache

from posttrain.runtime.grading.letters import plain
from posttrain.runtime.grading.mend import mended, unescaped
from posttrain.runtime.grading.notation import before_joints, rewritten
from posttrain.runtime.grading.tokens import braced
from posttrain.runtime.grading.tree import TooLarge, Unreadable

NESTING_AT_MOST = 40
PEELS_AT_MOST = 12
CHARACTERS_AT_MOST = 20_000
JOINT_AT_MOST = 60

PAIRS = (
    ("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**"), ("__", "__"), ("```", "```"),
    ("`", "`"), ("<answer>", "</answer>"), ('"', '"'), ("'", "'"), ("``", "''"), ("*", "*"),
)  # fmt: skip
PAIR_STARTS = frozenset(opening[0] for opening, _ in PAIRS)
LEAD = re.compile(
    r"\s*(?P<mark>\*\*|__)?(?:(?:so|thus|hence|therefore|then)\b,?\s*)?(?:(?:the|my|our)\s+)?(?:(?:final|correct|required)\s+)?"
    r"(?:answer|ans|solution|result)s?\b\s*(?:(?:is|are|:|=)\s*:?\s*)+(?(mark)(?:(?P=mark)\s*:?)?)(?=\s*\S)",
    re.IGNORECASE,
)
OPEN_LEAD = re.compile(
    r"\s*(?:(?:so|thus|hence|therefore|\\therefore)\b,?\s+)?"
    r"(?:=|####|\\approx\b|(?:approximately|approx\.|about|roughly)(?=\s))\s*(?=\S)",
    re.IGNORECASE,
)
HOPE = re.compile(r"\bI hope (?:it|this) is correct\.?\s*$", re.IGNORECASE)
TAIL = re.compile(r"(?:(?<!\.)\.|[,;:]|\\\\|\\[,;! ]|\s)+$")
DOLLAR = re.compile(r"(?<!\\)\$\$?")
MONEY = re.compile(r"(?<!\\)\$\s*\d[\d,]*(?:\.\d+)?(?![\d$^_{}\\=])")
BRACKETS = re.compile(r"(?<!\\)\\[()\[\]]")
BOX = re.compile(r"\\(?:boxed|fbox|framebox)\s*(?=[{\\\w])")

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@lru_cache(maxsize=4096)
def clean(text: str) -> str:
    """The answer without its dress. Raises TooLarge on deep nesting."""
    # Single spaces, for the patterns below: on long runs of them some would take forever.
    text = " ".join(plain(text).split())
    if len(text) > CHARACTERS_AT_MOST:
        raise TooLarge(f"more than {CHARACTERS_AT_MOST} characters")
    check_nesting(text)
    text = unescaped(text)
    for _ in range(PEELS_AT_MOST):
        peeled = _peel(text)
        if peeled == text:
            break
        text = peeled
    if NUMBER.fullmatch(text):
        return text
    text = " ".join(mended(text).split())
    return rewritten(_undelimited(before_joints(text))).strip()


def check_nesting(text: str) -> None:
    depth = 0
    for character in text:
        if character in "([{":
            depth += 1
            if depth > NESTING_AT_MOST:
                raise TooLarge(f"brackets nested deeper than {NESTING_AT_MOST}")
        elif character in ")]}":
            depth = max(0, depth - 1)


def _peel(text: str) -> str:
    inner = None if superseded(text) else boxed(text)
    text = text if inner is None else inner
    text = HOPE.sub("", text)
    text = _lead(LEAD.sub("", text, count=1) if LEAD.match(text) else text)
    text = _tail(text.strip())
    return _unpaired(text) if text[:1] in PAIR_STARTS else text


def _unpaired(text: str) -> str:
    """Without a pair of marks around the whole, when neither stands inside as well."""
    for opening, closing in PAIRS:
        inner = text[len(opening) : -len(closing)]
        paired = text.startswith(opening) and text.endswith(closing) and opening not in inner
        if paired and inner.strip() and closing not in inner:
            return inner.strip()
    return text


def _lead(text: str) -> str:
    match = OPEN_LEAD.match(text)
    return text[match.end() :] if match else text


def _tail(text: str) -> str:
    match = TAIL.search(text, max(0, len(text) - 40))
    if match is None or text[: match.start()].endswith(("\\left", "\\right")):
        return text
    return text[: match.start()]


def boxed(text: str) -> str | None:
    """What the last box holds; boxes joined by nothing but commas, `and`, `or` are read as one list."""
    found: list[str] = []
    end = 0
    for box in BOX.finditer(text):
        if box.start() < end:
            continue
        before = end
        try:
            inner, end = braced(text, box.end()) if text[box.end()] == "{" else _bare(text, box.end())
        except Unreadable:
            inner, end = text[box.end() + 1 :].rstrip(" $.\n"), len(text)
        if found and not inner.strip():
            continue
        found = [*found, inner] if found and _joined(text, before, box.start()) else [inner]
    return ", ".join(found) if found else None


def superseded(text: str) -> bool:
    """Whether a final answer is named behind the last box."""
    last = text.rfind("\\boxed")
    return last >= 0 and LATER.search(text, last) is not None


def _joined(text: str, end: int, start: int) -> bool:
    return start - end <= JOINT_AT_MOST and JOINT.fullmatch(text, end, start) is not None


BETWEEN = r"(?:[\s$,;.:]|\\[,;! ()\[\]]|\\q?quad(?![a-z]))*"
AND = r"(?:(?:[A-Za-z]+\s+){0,2}(?:and|or)\b|\\text\s*\{[^{}]{0,30}\b(?:and|or)\b[^{}]{0,20}\})"
NAMED = r"(?:\\?[A-Za-z](?:_\{?\w{1,6}\}?)?(?:\([a-z]\))?\s*=)"
JOINT = re.compile(f"{BETWEEN}(?:{AND}{BETWEEN})?(?:{NAMED}{BETWEEN})?")
LATER = re.compile(r"\bfinal answer(?![^.\n:]{0,40}\\boxed)\b[^.\n:]{0,40}?(?:\bis\b|:)\s*\S", re.IGNORECASE)
BARE = re.compile(r"\\?\w+")


def _bare(text: str, at: int) -> tuple[str, int]:
    match = BARE.match(text, at)
    return (match[0], match.end()) if match else ("", at)


def _undelimited(text: str) -> str:
    """Without the marks of inline mathematics; a dollar before a sum of money stays."""
    text = BRACKETS.sub(" ", text)
    marks = len(DOLLAR.findall(text))
    if marks == 0 or (marks % 2 and MONEY.search(text)):
        return text
    if marks > 1 and len(MONEY.findall(text)) == marks:
        return text
    return DOLLAR.sub(" ", text)
