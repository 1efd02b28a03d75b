"""Splits text into tokens, in linear time and without evaluating anything."""

import re
from typing import NamedTuple

from posttrain.grading.expression_tree import ParseError, TooLarge
from posttrain.grading.unicode_tables import FUNCTIONS, split_letters
from posttrain.grading.units import is_unit

MAX_TOKENS = 1500
MAX_DIGITS = 1500


class Token(NamedTuple):
    """A token of an answer.

    kind: number, letter, roman (an upright letter), command, text, and, or, row, begin, end, or the symbol.
    spaced: whether white space precedes the token.
    """

    kind: str
    text: str
    spaced: bool = False


PATTERN = re.compile(
    r"(?P<space>\s+|~)"
    r"|(?P<dots>\.\.\.+)"
    r"|(?P<hexadecimal>\d[\dA-F]*[A-F][\dA-F]*(?=_\s*\{?\s*\d)|[A-F][\dA-F]+(?=_\s*\{?\s*16))"
    r"|(?P<number>\d+(?:\.\d+|\.(?![\d.a-zA-Z]))?|\.\d+)"
    r"|(?P<environment>\\(?:begin|end)\s*\{\s*[a-zA-Z]+\*?\s*\})"
    r"|(?P<row>\\\\(?:\s*\[[^\]]{0,12}\])?)"
    r"|(?P<command>\\[a-zA-Z]+\*?|\\.)"
    r"|(?P<letters>[A-Za-z]+)"
    r"|(?P<symbol>\*\*|<=|>=|=<|!=|==|:=|<>|=>|->|.)",
    re.DOTALL,
)
EXPONENT = re.compile(r"[eE]([+-]?\d+)(?![\d.])")

# Commands that only affect the layout.
LAYOUT_COMMAND_NAMES = """
left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr middle displaystyle textstyle scriptstyle
limits nolimits quad qquad space thinspace hfill nonumber rm bf it mathstrut hline therefore Large large
cal tt noindent medspace thickspace negthinspace negmedspace negthickspace enspace allowbreak newline strut
! , ; : >
"""
LAYOUT_COMMANDS = frozenset(LAYOUT_COMMAND_NAMES.split()) | {" "}
TEXT_COMMAND_NAMES = """
text textbf textit textrm textnormal texttt mathrm mathbf mathit mathsf mathcal operatorname operatorname*
mbox hbox boldsymbol bm mathtt underline vec hat tilde bar overrightarrow
"""
TEXT_COMMANDS = frozenset(TEXT_COMMAND_NAMES.split())
UNIT_PRECEDERS = frozenset(("number", "}", ")", "text", "roman", "/", "^", "cdot", "*"))
UNITS_OR_FUNCTIONS = frozenset(("min", "sec", "max"))
VECTORS = frozenset(("mathbf", "textbf", "vec", "hat", "boldsymbol", "bm", "overrightarrow"))
UNIT_VECTORS = {"i": "i", "j": "j", "k": "k", "\\imath": "i", "\\jmath": "j"} | {
    f"\\hat{{{name}}}": name for name in "ijk"
}
OTHER_UNITS = re.compile(r"\{\s*(?:\\hat\s*\{)?(?:[jk]|\\jmath)\s*\}")
UPRIGHT = frozenset(("text", "mathrm", "textrm", "mbox", "textnormal"))
COMMAND_ALIASES = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "leq": "le", "leqslant": "le", "geq": "ge",
    "geqslant": "ge", "neq": "ne", "lt": "<", "gt": ">", "lbrace": "\\{", "rbrace": "\\}", "{": "\\{",
    "}": "\\}", "|": "|", "Vert": "|", "vert": "|", "lvert": "|", "rvert": "|", "lVert": "|",
    "rVert": "|", "mid": "|", "%": "%", "$": "$", "#": "#", "_": "_", "&": "and", "lbrack": "[",
    "rbrack": "]", "dbinom": "binom", "tbinom": "binom", "backslash": "setminus", "varnothing":
    "emptyset", "ast": "*", "cdotp": "cdot", "bullet": "cdot", "colon": ":", "dots": "ldots",
    "cdots": "ldots", "dotsc": "ldots", "dotsb": "ldots", "vdots": "ldots", "bigcup": "cup",
    "bigcap": "cap", "land": "and", "wedge": "and", "lor": "or", "vee": "or", "thickapprox": "approx",
    "doteq": "approx",
    "simeq": "approx", "cong": "approx", "sim": "approx", "longrightarrow": "to", "rightarrow": "to",
    "implies": "Rightarrow", "iff": "Rightarrow", "Leftrightarrow": "Rightarrow",
    "Longrightarrow": "Rightarrow", "varepsilon": "epsilon", "varphi": "phi", "vartheta": "theta",
    "degree": "circ", "degrees": "circ", "imath": "i", "slash": "/", "R": "reals", "N": "naturals",
    "Z": "integers", "Q": "rationals", "C": "complexes", "pounds": "£", "euro": "€", "exponentialE": "e",
    "imaginaryunit": "i", "imaginaryI": "i",
    "lparen": "(", "rparen": ")", "ge": "ge", "arctg": "arctan", "div": "/",
}  # fmt: skip
NUMBER_SETS = {"R": "reals", "Z": "integers", "N": "naturals", "Q": "rationals", "C": "complexes"}
# `\quadx` means `\quad x`: a letter after one of these commands is not part of its name.
GLUED = re.compile(r"(qquad|quad|cdot|times|infty|pi|pm)[a-zA-Z]")
WORDS = re.compile(r"[A-Za-z][A-Za-z .,'()/-]*")


def tokenize(text: str, euler: bool = False) -> list[Token]:
    """The tokens of a text. With `euler`, `2e-1` is 2*e - 1, otherwise 0.2."""
    tokens: list[Token] = []
    at, spaced = 0, False
    while at < len(text):
        match = PATTERN.match(text, at)
        if match is None:
            raise ParseError("unreadable character")
        kind, piece, at = match.lastgroup, match[0], match.end()
        if kind == "space":
            spaced = True
            continue
        measured = bool(tokens) and (tokens[-1].kind in UNIT_PRECEDERS or tokens[-1].text == "pi")
        new_tokens, at = _read_token(kind or "", piece, text, at, euler, measured)
        tokens.extend(Token(token.kind, token.text, spaced and not n) for n, token in enumerate(new_tokens))
        spaced = spaced and not new_tokens
        if len(tokens) > MAX_TOKENS:
            raise TooLarge(f"more than {MAX_TOKENS} tokens")
    return tokens


def _read_token(
    kind: str, piece: str, text: str, at: int, euler: bool, measured: bool
) -> tuple[list[Token], int]:
    match kind:
        case "number":
            return _read_number(piece, text, at, euler)
        case "hexadecimal":
            return [Token("number", piece)], at
        case "dots":
            return [Token("command", "ldots")], at
        case "environment":
            return _read_environment(piece, text, at)
        case "row":
            return [Token("row", "\\\\")], at
        case "command":
            return _read_command(piece[1:], text, at)
        case "letters":
            return _read_letters(piece, text[at : at + 2].lstrip()[:1], measured), at
        case _:
            return [Token(piece, piece)], at


def _read_number(piece: str, text: str, at: int, euler: bool) -> tuple[list[Token], int]:
    exponent = EXPONENT.match(text, at)
    if exponent and not euler:
        piece, at = piece + "e" + exponent[1], exponent.end()
    if len(piece) > MAX_DIGITS:
        raise TooLarge(f"a number of more than {MAX_DIGITS} digits")
    return [Token("number", piece)], at


def _read_environment(piece: str, text: str, at: int) -> tuple[list[Token], int]:
    name = piece[piece.index("{") + 1 : -1].strip().rstrip("*")
    kind = "begin" if piece.startswith("\\begin") else "end"
    if kind == "begin" and name in ("array", "tabular") and text[at : at + 1] == "{":
        _, at = read_braced(text, at)
    return [Token(kind, name)], at


def _read_letters(word: str, after: str, measured: bool) -> list[Token]:
    """A word as a unit, text, or letters. It is a unit only after an amount: `5 mg`, but not in `mg/k`."""
    if measured and (is_unit(word) or word == "pct") and word not in UNITS_OR_FUNCTIONS:
        return [Token("text", word)]
    if word in UNITS_OR_FUNCTIONS and not (after.isalpha() or after in ("(", "\\", "^")):
        return [Token("text", word)]
    if word.lower() in ("and", "or"):
        return [Token(word.lower(), word)]
    parts = split_letters(word, raised=after == "^")
    return [Token("text", word)] if parts is None else [Token(*part) for part in parts]


def _read_command(name: str, text: str, at: int) -> tuple[list[Token], int]:
    if name in LAYOUT_COMMANDS:
        if name in ("left", "right") and text[at : at + 1] == ".":
            at += 1
        return [], at
    if name in TEXT_COMMANDS:
        return _read_text(name, text, at)
    if name == "mathbb":
        inner, at = read_argument(text, at)
        return [Token("command", NUMBER_SETS.get(inner.strip(), inner.strip()))], at
    name = COMMAND_ALIASES.get(name, name)
    if found := GLUED.fullmatch(name):
        return _read_command(found[1], text, at - 1)
    if name in ("and", "or"):
        return [Token(name, name)], at
    if not name[:1].isalpha():
        return [Token(name, name)], at
    return [Token("command", name)], at


def _read_text(name: str, text: str, at: int) -> tuple[list[Token], int]:
    inner, at = read_argument(text, at)
    inner = inner.replace("\\ ", " ").replace("~", " ").strip()
    if name in ("hat", "tilde") and inner.isdigit():
        raise ParseError("an accent on a number")
    if inner in FUNCTIONS and (name not in ("text", "mathrm") or len(inner) > 2):
        return [Token("command", inner)], at
    if (conjunction := inner.strip(" ,").lower()) in ("and", "or"):
        return [Token(conjunction, conjunction)], at
    if name in VECTORS and inner in UNIT_VECTORS and OTHER_UNITS.search(text):
        return [Token("letter", f"unit {UNIT_VECTORS[inner]}")], at
    if WORDS.fullmatch(inner) and len(inner) > 1:
        return [Token("text", inner)], at
    tokens = tokenize(inner)
    if name in UPRIGHT:
        tokens = [
            Token("roman", token.text, token.spaced) if token.kind == "letter" else token for token in tokens
        ]
    return tokens, at


def read_argument(text: str, at: int) -> tuple[str, int]:
    """The braced argument at this position, or the next character."""
    while at < len(text) and text[at].isspace():
        at += 1
    return read_braced(text, at) if text[at : at + 1] == "{" else (text[at : at + 1], at + 1)


def read_braced(text: str, at: int) -> tuple[str, int]:
    """The content of the braces that open at `at`, and the position after them."""
    depth = 0
    for end in range(at, len(text)):
        if text[end] in "{}" and text[end - 1 : end] != "\\":
            depth += 1 if text[end] == "{" else -1
            if depth == 0:
                return text[at + 1 : end], end + 1
    raise ParseError("unclosed brace")
