"""Parses answers in words: yes and no, choices, spelled-out numbers, phrases that mean a set."""

import re
from fractions import Fraction

from posttrain.grading.doubt_words import DOUBT, is_doubtful_noun
from posttrain.grading.expression_tree import Constant, NamedSet, Node, Number, Quantity, Text

TEXT_COMMAND = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|operatorname)\s*\{([^{}]*)\}"
)
COMMAND = re.compile(r"\\[a-zA-Z]+|\\.")
NOT_WORDS = re.compile(r"[^\w\s+=<>/%-]|_")
ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
ARTICLE = re.compile(r"^(?:it is|it's|they are|the|an|a)\s+")

REALS = """
all real numbers|all reals|all real values|any real number|all real x|every real number|real numbers|
set of all real numbers
"""
INTEGERS = "all integers|any integer|set of integers|set of all integers|all integer values"
EMPTY = """
no solution|no solutions|no real solution|no real solutions|none|empty set|there is no solution|
there are no solutions|no such value|no such number|no real roots|no values|no value|{}
"""
INFINITE = "infinity|infinitely many|infinite|infinite solutions|infinitely many solutions|unbounded"
UNDEFINED = "dne|does not exist|doesn't exist|do not exist|undefined|not defined|limit does not exist"
PHRASE_MEANINGS: tuple[tuple[Node, str], ...] = (
    (NamedSet("reals"), REALS),
    (NamedSet("integers"), INTEGERS),
    (NamedSet("empty"), EMPTY),
    (Constant("infinity"), INFINITE),
    (Text("does not exist"), UNDEFINED),
    (Text("yes"), "yes|true|correct"),
    (Text("no"), "no|false|incorrect"),
)
PHRASES = {phrase.strip(): node for node, phrases in PHRASE_MEANINGS for phrase in phrases.split("|")}

SMALL_NAMES = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen
"""
TENS_NAMES = "twenty thirty forty fifty sixty seventy eighty ninety"
SMALL_NUMBERS = {name: value for value, name in enumerate(SMALL_NAMES.split())}
TENS = {name: 10 * value for value, name in enumerate(TENS_NAMES.split(), 2)}
SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}

PART_NAMES = "half third quarter fifth sixth seventh eighth ninth tenth"
FRACTION_PARTS = {name: value for value, name in enumerate(PART_NAMES.split(), 2)} | {
    "fourth": 4,
    "hundredth": 100,
}

CHOICE = re.compile(
    r"(?:(?:option|choice|answer)\s+)?(?:\(([A-J])\)|([A-J])\s*[).:])(?:(?:\s|\\ |\\quad|~)+(.*))?", re.DOTALL
)
CHOICE_WITH_REASON = re.compile(r"\(?([A-J])\)?\s*[,;:-]+\s+(?:because|since|as|for|it|they|the)\b")
OTHER_LETTER = re.compile(r"(?<![\w$\\])\(?(?!A\s)[A-J]\)?(?![\w'(=^])")
LETTER = re.compile(r"(?:(?:option|choice)\s+)?\(?([A-Ja-j])\)?[.:]?", re.IGNORECASE)


def normalize_words(text: str, case_sensitive: bool = False) -> str:
    """The words of an answer without LaTeX, punctuation, repeated spaces and the leading article."""
    text = TEXT_COMMAND.sub(r" \1 ", text)
    text = ORDINAL.sub("", COMMAND.sub(" ", text.replace("\\ ", " ")))
    text = " ".join(NOT_WORDS.sub("" if "'" in text else " ", text.replace("'", "")).split())
    return text if case_sensitive else ARTICLE.sub("", text.casefold())


def parse_phrase(text: str) -> Node | None:
    """The node for a known phrase or a number in words, or None."""
    words = " ".join(TEXT_COMMAND.sub(r" \1 ", text).casefold().strip(" .$").split())
    known = PHRASES.get(words) or PHRASES.get(ARTICLE.sub("", words))
    return known if known is not None else _parse_number_words(words)


def _parse_number_words(text: str) -> Node | None:
    """Parse a number in words, optionally with a noun: `twenty-one`, `five apples`."""
    words = text.replace("-", " ").split()
    total, current, used = 0, 0, 0
    for word in words:
        if word in SMALL_NUMBERS or word in TENS:
            current += SMALL_NUMBERS.get(word, 0) + TENS.get(word, 0)
        elif word in SCALES and used:
            current *= SCALES[word]
            if SCALES[word] > 100:
                total, current = total + current, 0
        elif word != "and" or not used:
            break
        used += 1
    if not used:
        return None
    rest = words[used:]
    if rest and (part := FRACTION_PARTS.get(rest[0].removesuffix("s") if rest[0] != "halves" else "half")):
        return None if rest[1:] else Number(Fraction(total + current, part))
    number = Number(Fraction(total + current))
    noun = " ".join(rest)
    if (
        is_doubtful_noun(noun)
        or len(set(rest)) < len(rest)
        or set(rest) & (SMALL_NUMBERS.keys() | TENS.keys() | SCALES.keys())
    ):
        return None
    return Quantity(number, noun) if noun else number


def leading_choice(text: str) -> str | None:
    """The choice letter at the start of a sentence that continues with a reason."""
    match = CHOICE_WITH_REASON.match(text)
    doubtful = match and (OTHER_LETTER.search(text, match.end()) or DOUBT.search(text, match.end()))
    return match[1] if match and not doubtful else None


def parse_choice(text: str) -> tuple[str, str] | None:
    """The letter of a choice and the text after it: `(B) 12` is B and 12."""
    text = TEXT_COMMAND.sub(r" \1 ", text).strip(" $*.")
    if lone := LETTER.fullmatch(text):
        return lone[1].upper(), ""
    match = CHOICE.fullmatch(text)
    return ((match[1] or match[2]).upper(), (match[3] or "").strip()) if match else None
