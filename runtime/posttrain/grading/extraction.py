"""Finds the answer in a completion, with a configurable list of extraction methods."""

import re
from dataclasses import dataclass
from typing import Literal

from posttrain.grading.doubt_words import JUDGED
from posttrain.grading.strip_wrapping import last_boxed

ExtractionMethod = Literal[
    "boxed", "tags", "hashes", "phrase", "last_math", "last_line", "last_number", "whole"
]

PHRASE = re.compile(
    r"(?:final\s+)?answers?\b(?:(?!\b(?:not|never|wrong|incorrect|neither|could|might|may|or\s+it)\b|n't)[^.\n:=]){0,60}?"
    r"(?:\bis\b|\bare\b|\bequals\b|\b(?:would|must|should|will|to)\s+be\b|:|=)\s*(?:\*\*)?\s*:?\s*"
    r"(?:(?:therefore|thus|hence|then|simply|indeed|just|clearly|now)\b,?\s*)?"
    r"|^#{1,6} *(?:final +)?answers? *:? *\n+"
    r"|\u7b54\u6848\s*(?:[:\uff1a\u662f\u4e3a]\s*){1,3}",
    re.IGNORECASE | re.MULTILINE,
)
NUMBERED_ANSWER = re.compile(r"\banswers?\s*\(?(?:\d|[a-d])\)?\s*[:=]", re.IGNORECASE)
SENTENCE = re.compile(r"\n|[.!?](?=\s+[A-Z])|[.!?]\s*$")
# The lengths are bounded so that the time stays linear for a text with many opening delimiters.
MATH = re.compile(
    r"\$\$(.{1,1000}?)\$\$|(?<!\\)\$([^$\n]{1,1000})(?<!\\)\$|\\\((.{1,1000}?)\\\)|\\\[(.{1,1000}?)\\\]",
    re.DOTALL,
)
FORMULA_WINDOW = 20_000
NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?(?:/\d+)?%?|[-+]?\.\d+")
HASHES = re.compile(r"####\s*(.+)")


@dataclass(frozen=True, slots=True)
class ExtractionRules:
    """How to search for an answer.

    methods: the methods to try, in order. The first one with a result wins.
        `boxed` returns the last \\boxed{}, `tags` the text between the tags, `hashes` the text after ####,
        `phrase` the text after 'the answer is', `last_math` the last formula in dollars, `last_line` the last
        line that is not blank, `last_number` the last number, `whole` the whole text.
    tags: the opening and closing tags for `tags`. The last complete pair is used.
    after_marker: search only the text after the last occurrence of this marker, such as `</think>`, if there
        is one.
    require_marker: find no answer unless `after_marker` occurs.
    require_single: for `boxed` and `tags`, require exactly one box or pair of tags.
    max_characters: search only the last characters of a longer completion.
    """

    methods: tuple[ExtractionMethod, ...] = ("boxed", "tags", "hashes", "phrase")
    tags: tuple[str, str] = ("<answer>", "</answer>")
    after_marker: str | None = None
    require_marker: bool = False
    require_single: bool = False
    max_characters: int = 200_000


DEFAULTS = ExtractionRules()


def extract(text: str, rules: ExtractionRules = DEFAULTS) -> str | None:
    """The answer exactly as in the text, or None."""
    _check_text(text)
    text = text[-rules.max_characters :]
    if rules.after_marker is not None:
        before, marker, after = text.rpartition(rules.after_marker)
        if rules.require_marker and not marker:
            return None
        text = after if marker else before or after
    for method in rules.methods:
        answer = EXTRACTORS[method](text, rules)
        if answer is not None and answer.strip():
            return answer.strip()
    return None


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"the completion must be a text, not {type(text).__name__}")


def _boxed(text: str, rules: ExtractionRules) -> str | None:
    if rules.require_single and text.count("\\boxed") != 1:
        return None
    return last_boxed(text)


def _between_tags(text: str, rules: ExtractionRules) -> str | None:
    opening, closing = rules.tags
    if rules.require_single and (text.count(opening), text.count(closing)) != (1, 1):
        return None
    end = text.rfind(closing)
    start = text.rfind(opening, 0, end) if end >= 0 else -1
    return text[start + len(opening) : end] if start >= 0 else None


def _after_hashes(text: str, rules: ExtractionRules) -> str | None:
    answers = HASHES.findall(text)
    return answers[-1] if answers else None


def _after_phrase(text: str, rules: ExtractionRules) -> str | None:
    matches = [
        match
        for match in PHRASE.finditer(text)
        if not JUDGED.search(text[max(0, match.start() - 40) : match.start()])
    ]
    if not matches or len(NUMBERED_ANSWER.findall(text)) > 1:
        return None
    rest = text[matches[-1].end() :]
    formula = MATH.match(rest)
    sentence = SENTENCE.search(rest)
    end = sentence.start() if sentence else len(rest)
    if formula and formula.end() > end:
        end = formula.end()
    asked = sentence is not None and sentence[0].startswith("?")
    return rest[: end + asked]


def _last_math(text: str, rules: ExtractionRules) -> str | None:
    formulas = [
        next(group for group in match.groups() if group) for match in MATH.finditer(text[-FORMULA_WINDOW:])
    ]
    return formulas[-1] if formulas else None


def _last_line(text: str, rules: ExtractionRules) -> str | None:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else None


def _last_number(text: str, rules: ExtractionRules) -> str | None:
    numbers = NUMBER.findall(text)
    return numbers[-1] if numbers else None


def _whole(text: str, rules: ExtractionRules) -> str | None:
    return text


EXTRACTORS = {
    "boxed": _boxed,
    "tags": _between_tags,
    "hashes": _after_hashes,
    "phrase": _after_phrase,
    "last_math": _last_math,
    "last_line": _last_line,
    "last_number": _last_number,
    "whole": _whole,
}


def leading_value(text: str) -> str | None:
    """The formula or number at the start of a text, unless a letter follows it directly."""
    match = MATH.match(text) or NUMBER.match(text)
    following = text[match.end() : match.end() + 1] if match else ""
    return match[0] if match and (not following or following in " ,.;") else None


def distinct_values(text: str) -> list[str]:
    """The distinct formulas in a sentence, or the distinct numbers if it has no formulas."""
    formulas = [
        next(group for group in match.groups() if group).strip()
        for match in MATH.finditer(text[-FORMULA_WINDOW:])
    ]
    return list(dict.fromkeys(formulas or NUMBER.findall(text)))
