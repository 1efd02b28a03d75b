"""Strips the wrapping of answers: \\boxed, dollar signs, Markdown, 'the answer is', a final period."""

import re
from functools import lru_cache

from posttrain.grading.expression_tree import ParseError, TooLarge
from posttrain.grading.latex_tokens import read_braced
from posttrain.grading.notation_rewrites import rewrite_delimited, rewrite_notation
from posttrain.grading.repair_latex import repair_latex, unescape_backslashes
from posttrain.grading.unicode_tables import to_latex_ascii

MAX_NESTING = 40
MAX_LAYERS = 12
MAX_CHARACTERS = 20_000
MAX_CONNECTIVE = 60

PAIRS = (
    ("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**"), ("__", "__"), ("```", "```"),
    ("`", "`"), ("<answer>", "</answer>"), ('"', '"'), ("'", "'"), ("``", "''"), ("*", "*"),
)  # fmt: skip
PAIR_STARTS = frozenset(opening[0] for opening, _ in PAIRS)
ANSWER_LEAD_IN = re.compile(
    r"\s*(?P<mark>\*\*|__)?(?:(?:so|thus|hence|therefore|then)\b,?\s*)?(?:(?:the|my|our)\s+)?(?:(?:final|correct|required)\s+)?"
    r"(?:answer|ans|solution|result)s?\b\s*(?:(?:is|are|:|=)\s*:?\s*)+(?(mark)(?:(?P=mark)\s*:?)?)(?=\s*\S)",
    re.IGNORECASE,
)
SIGN_LEAD_IN = re.compile(
    r"\s*(?:(?:so|thus|hence|therefore|\\therefore)\b,?\s+)?"
    r"(?:=|####|\\approx\b|(?:approximately|approx\.|about|roughly)(?=\s))\s*(?=\S)",
    re.IGNORECASE,
)
CLOSING_REMARK = re.compile(r"\bI hope (?:it|this) is correct\.?\s*$", re.IGNORECASE)
TAIL = re.compile(r"(?:(?<!\.)\.|[,;:]|\\\\|\\[,;! ]|\s)+$")
DOLLAR = re.compile(r"(?<!\\)\$\$?")
MONEY = re.compile(r"(?<!\\)\$\s*\d[\d,]*(?:\.\d+)?(?![\d$^_{}\\=])")
BRACKETS = re.compile(r"(?<!\\)\\[()\[\]]")
BOX = re.compile(r"\\(?:boxed|fbox|framebox)\s*(?=[{\\\w])")

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@lru_cache(maxsize=4096)
def strip_wrapping(text: str) -> str:
    """The answer without its wrapping. Raises TooLarge for long texts and deep nesting."""
    # Some patterns below are very slow on long runs of spaces.
    text = " ".join(to_latex_ascii(text).split())
    if len(text) > MAX_CHARACTERS:
        raise TooLarge(f"more than {MAX_CHARACTERS} characters")
    check_nesting(text)
    text = unescape_backslashes(text)
    for _ in range(MAX_LAYERS):
        stripped = _strip_layer(text)
        if stripped == text:
            break
        text = stripped
    if NUMBER.fullmatch(text):
        return text
    text = " ".join(repair_latex(text).split())
    return rewrite_notation(_strip_math_delimiters(rewrite_delimited(text))).strip()


def check_nesting(text: str) -> None:
    depth = 0
    for character in text:
        if character in "([{":
            depth += 1
            if depth > MAX_NESTING:
                raise TooLarge(f"brackets nested deeper than {MAX_NESTING}")
        elif character in ")]}":
            depth = max(0, depth - 1)


def _strip_layer(text: str) -> str:
    inner = None if has_later_answer(text) else last_boxed(text)
    text = text if inner is None else inner
    text = CLOSING_REMARK.sub("", text)
    text = _strip_lead_in(ANSWER_LEAD_IN.sub("", text, count=1) if ANSWER_LEAD_IN.match(text) else text)
    text = _strip_tail(text.strip())
    return _strip_pair(text) if text[:1] in PAIR_STARTS else text


def _strip_pair(text: str) -> str:
    """Remove a pair of marks around the whole text, unless the text inside contains one of them."""
    for opening, closing in PAIRS:
        inner = text[len(opening) : -len(closing)]
        paired = text.startswith(opening) and text.endswith(closing) and opening not in inner
        if paired and inner.strip() and closing not in inner:
            return inner.strip()
    return text


def _strip_lead_in(text: str) -> str:
    match = SIGN_LEAD_IN.match(text)
    return text[match.end() :] if match else text


def _strip_tail(text: str) -> str:
    match = TAIL.search(text, max(0, len(text) - 40))
    if match is None or text[: match.start()].endswith(("\\left", "\\right")):
        return text
    return text[: match.start()]


def last_boxed(text: str) -> str | None:
    """The content of the last box. Boxes joined only by commas, `and` or `or` are one list."""
    boxes: list[str] = []
    end = 0
    for box in BOX.finditer(text):
        if box.start() < end:
            continue
        before = end
        try:
            inner, end = (
                read_braced(text, box.end())
                if text[box.end()] == "{"
                else _unbraced_argument(text, box.end())
            )
        except ParseError:
            inner, end = text[box.end() + 1 :].rstrip(" $.\n"), len(text)
        if boxes and not inner.strip():
            continue
        boxes = [*boxes, inner] if boxes and _are_joined(text, before, box.start()) else [inner]
    return ", ".join(boxes) if boxes and not REFUSED_BOX.match(text, end) else None


def has_later_answer(text: str) -> bool:
    """Whether the text states a final answer after the last box."""
    last = text.rfind("\\boxed")
    return last >= 0 and LATER.search(text, last) is not None


def _are_joined(text: str, end: int, start: int) -> bool:
    if start - end > MAX_CONNECTIVE:
        return False
    return bool(CONNECTIVE.fullmatch(text, end, start) or ALTERNATIVE.search(text[end:start]))


BLANKS = r"(?:[\s$,;.:]|\\[,;! ()\[\]]|\\q?quad(?![a-z]))*"
AND = r"(?:(?:[A-Za-z]+\s+){0,2}(?:and|or)\b|\\text\s*\{[^{}]{0,30}\b(?:and|or)\b[^{}]{0,20}\})"
NAMED = r"(?:\\?[A-Za-z](?:_\{?\w{1,6}\}?)?(?:\([a-z]\))?\s*=)"
ALTERNATIVE = re.compile(
    r"\b(?:or|alternatively|perhaps|maybe|possibly|though|vs|versus|else|otherwise)\b|^[^A-Za-z.]*[/|&][^A-Za-z.]*$",
    re.IGNORECASE,
)
REFUSED_BOX = re.compile(
    r"[\s$.)}\]]*(?:(?:is|was|would be)\s+(?:wrong|incorrect|false|not)\b"
    r"|[?,]\s*(?:oh\s+)?(?:wait,?\s+)?no\b)",
    re.IGNORECASE,
)
CONNECTIVE = re.compile(f"{BLANKS}(?:{AND}{BLANKS})?(?:{NAMED}{BLANKS})?")
LATER = re.compile(r"\bfinal answer(?![^.\n:]{0,40}\\boxed)\b[^.\n:]{0,40}?(?:\bis\b|:)\s*\S", re.IGNORECASE)
UNBRACED = re.compile(r"\\?\w+")


def _unbraced_argument(text: str, at: int) -> tuple[str, int]:
    match = UNBRACED.match(text, at)
    return (match[0], match.end()) if match else ("", at)


def _strip_math_delimiters(text: str) -> str:
    """Remove the delimiters of inline mathematics, but not the dollar sign of an amount of money."""
    text = BRACKETS.sub(" ", text)
    marks = len(DOLLAR.findall(text))
    if marks == 0 or (marks % 2 and MONEY.search(text)):
        return text
    if marks > 1 and len(MONEY.findall(text)) == marks:
        return text
    return DOLLAR.sub(" ", text)
