"""Rewrites notations in a simpler form: digit groups, 3 x 10^5, degrees and minutes, ordinals."""

import re
from fractions import Fraction

from posttrain.grading.expression_tree import Number
from posttrain.grading.word_answers import parse_phrase

MINUTES = re.compile(
    r"(\d+)\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ)\s*(\d+)\s*(?:'|\^\{?\\prime\}?)(?=$|[\s,;.$])"
)
GLUED_CONJUNCTION = re.compile(r"(?<=[\d)}\]])(or|and)(?=[A-Za-z](?:_\w+)?(?:\([a-z]\))?\s*[=<>]|[-\d(\\])")
COMBINATIONS = re.compile(
    r"(?:\{\s*\}\s*)?_\{?(\d+)\}?\s*C_\{?(\d+)\}?|(?<![\w}])\bC_\{?(\d+)\}?\^\{?(\d+)\}?"
)
RATIO = re.compile(r"^(\d+)\s+to\s+(\d+)$")
RESTATED_IN_WORDS = re.compile(r"^(\d+)\s+\(([a-z]{3,}(?:[- ][a-z]+){0,4})\)$")
HALF_DAY = re.compile(r"\b([ap])\.\s?m\b\.?", re.IGNORECASE)
ORDINAL = re.compile(r"(\d)\s*\^?\{?\s*(?:\\(?:text|mathrm|textrm)\s*\{)?\s*(?:st|nd|rd|th)\}*$")
INTEGER_LETTER = re.compile(
    r"[,;]?\s*\(?(?:\\text\s*\{)?\s*(?:where|for|with)?\s*"
    r"(?:\}?\s*\$?\b([a-zA-Z])\$?\s*(?:\\text\s*\{)?\s*is (?:an|any) integer"
    r"|\b(?:any|all|every|some|each)\s+integers?\s*\}?\s*\$?([a-zA-Z])\b)\$?\}?\)?\s*$"
)
EXCEPT = re.compile(
    r"^(?:\\text\s*\{\s*)?all\s+real\s+(?:numbers|values)(?:\s+of\s+\w|\s+\w)?,?\s+except(?:\s+for)?\s*\}?\s*"
    r"(?:[a-z]\s*=\s*)?([^{}]{1,80}?)\}?$",
    re.IGNORECASE,
)
ITEM_SEPARATOR = re.compile(r"\s*(?:,|\band\b|\bor\b)\s*(?:[a-z]\s*=\s*)?")
DIGIT_GROUPS = re.compile(  # possessive, because separators between the groups match in many ways
    r"(?<![\d.])\d{1,3}(?:(?>,?\\[!,;: ],?|\s?\{\s?,\s?\}|,\{\}|[ '~])++\d{3})+(?![\d/]|\s*/\s*\d)"
)
DOTTED_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:\.\d{3}){2,}(?![\d.])")
GROUP_MARK = re.compile(r"[^\d]")
DECIMAL_BRACES = re.compile(r"(?<=\d)\{,\}(?=\d)")
TIMES_TEN = re.compile(r"(?<=\d)\s*[xX]\s*(?=10\s*(?:\^|\*\*))|(?<=\d)\s+[xX]\s+(?=\d)|(?<=\d)[xX](?=\d)")


def rewrite_delimited(text: str) -> str:
    """Apply the rewrites that need the dollar signs around formulas."""
    text = HALF_DAY.sub(r"\1m", text)
    text = GLUED_CONJUNCTION.sub(r" \1 ", text)
    text = RATIO.sub(r"\1:\2", text)
    text = RESTATED_IN_WORDS.sub(_restated_number, text)
    text = ORDINAL.sub(r"\1", text)
    if "except" in text:
        text = EXCEPT.sub(_real_numbers_except, text)
    return INTEGER_LETTER.sub(_integer_parameter, text) if "integer" in text else text


def rewrite_notation(text: str) -> str:
    if "_" in text:
        text = COMBINATIONS.sub(
            lambda found: f"\\binom{{{found[1] or found[3]}}}{{{found[2] or found[4]}}}", text
        )
    if "circ" in text:
        text = MINUTES.sub(r"{\1+\\frac{\2}{60}}^{\\circ}", text)
    text = TIMES_TEN.sub(" \\\\times ", text)
    text = DIGIT_GROUPS.sub(lambda number: GROUP_MARK.sub("", number[0]), text)
    text = DOTTED_THOUSANDS.sub(lambda number: number[0].replace(".", ""), text)
    return DECIMAL_BRACES.sub(".", text)


def _restated_number(found: re.Match[str]) -> str:
    """The number of `7 (seven)`. Other words in brackets remain: they can deny the number."""
    return found[1] if parse_phrase(found[2]) == Number(Fraction(int(found[1]))) else found[0]


def _real_numbers_except(words: re.Match[str]) -> str:
    return f"\\mathbb{{R}}\\setminus\\{{{ITEM_SEPARATOR.sub(', ', words[1])}\\}}"


def _integer_parameter(words: re.Match[str]) -> str:
    return f", {words[1] or words[2]} \\in \\mathbb{{Z}}"
