"""Tables from Unicode characters and names of mathematics to LaTeX commands."""

# ruff: noqa: RUF001 - this table contains ambiguous characters on purpose

import re
import unicodedata

GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta",
    "θ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "µ": "mu", "ν": "nu", "ξ": "xi",
    "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "ϕ": "phi", "χ": "chi",
    "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi",
    "Π": "Pi", "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip

SYMBOL_COMMANDS = {
    "×": "times", "÷": "div", "·": "cdot", "⋅": "cdot", "∙": "cdot", "•": "cdot", "√": "sqrt",
    "∞": "infty", "≤": "le", "≦": "le", "⩽": "le", "≥": "ge", "≧": "ge", "⩾": "ge", "≠": "ne",
    "≈": "approx", "≃": "approx", "≅": "approx", "≡": "equiv", "∈": "in", "∉": "notin", "∪": "cup",
    "⋃": "cup", "∩": "cap", "∖": "setminus", "∅": "emptyset", "→": "to", "±": "pm", "∓": "mp",
    "⟨": "langle", "⟩": "rangle", "〈": "langle", "〉": "rangle", "⌊": "lfloor", "⌋": "rfloor",
    "⌈": "lceil", "⌉": "rceil", "∧": "land", "∨": "lor", "ℓ": "ell", "∴": "therefore",
    "∠": "angle", "△": "triangle", "′": "prime", "∣": "mid",
}  # fmt: skip

REPLACEMENTS = {
    "∛": "\\sqrt[3] ", "∜": "\\sqrt[4] ", "°": "^{\\circ}", "º": "^{\\circ}", "˚": "^{\\circ}",
    "℃": "^{\\circ}C", "℉": "^{\\circ}F",
    "ℝ": "\\mathbb{R}", "ℤ": "\\mathbb{Z}", "ℕ": "\\mathbb{N}", "ℚ": "\\mathbb{Q}",
    "ℂ": "\\mathbb{C}", "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "﹣": "-", "∗": "*",
    "⁄": "/", "∕": "/", "：": ":", "，": ",", "、": ",", "；": ";", "。": ".",
    "“": '"', "”": '"', "‘": "'", "’": "'", "…": "\\ldots ", "⋯": "\\cdots ", "\ufeff": "",
    "\u200b": "", "\u200c": "", "\u200d": "", "\u2060": "", "\u2061": "", "\u2062": " ",
}  # fmt: skip

VULGAR_FRACTIONS = {
    "½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5),
    "⅗": (3, 5), "⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅐": (1, 7), "⅛": (1, 8), "⅜": (3, 8),
    "⅝": (5, 8), "⅞": (7, 8), "⅑": (1, 9), "⅒": (1, 10),
}  # fmt: skip

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱˣ", "0123456789+-=()nix")
SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₒₓₖₙ", "0123456789+-=()aeoxkn")
SUPERSCRIPT_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱˣ]+")
SUBSCRIPT_RUN = re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₒₓₖₙ]+")

TRANSLATION = str.maketrans(
    {key: f"\\{name} " for key, name in (GREEK | SYMBOL_COMMANDS).items()}
    | {key: f"\\frac{{{over}}}{{{under}}}" for key, (over, under) in VULGAR_FRACTIONS.items()}
    | REPLACEMENTS
)


def to_latex_ascii(text: str) -> str:
    """Convert the known characters of a text to ASCII and LaTeX commands."""
    if text.isascii():
        return text
    text = SUPERSCRIPT_RUN.sub(lambda run: "^{" + run[0].translate(SUPERSCRIPTS) + "}", text)
    text = SUBSCRIPT_RUN.sub(lambda run: "_{" + run[0].translate(SUBSCRIPTS) + "}", text)
    return unicodedata.normalize("NFKC", text.translate(TRANSLATION)).translate(TRANSLATION)


FUNCTIONS = {
    "sin": "sin", "cos": "cos", "tan": "tan", "cot": "cot", "sec": "sec", "csc": "csc", "cosec": "csc",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arccot": "acot", "arcsec": "asec",
    "arccsc": "acsc", "asin": "asin", "acos": "acos", "atan": "atan", "tg": "tan", "ctg": "cot",
    "arctg": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "coth": "coth", "sech": "sech",
    "csch": "csch", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "asinh": "asinh",
    "acosh": "acosh", "atanh": "atanh", "log": "log", "ln": "ln", "lg": "lg", "exp": "exp",
    "max": "max", "min": "min", "gcd": "gcd", "lcm": "lcm", "abs": "abs", "sgn": "sign",
    "sign": "sign", "floor": "floor", "ceil": "ceil", "det": "det", "Re": "re", "Im": "im", "arg": "arg",
    "cis": "cis", "trace": "trace", "tr": "trace", "Gamma": "gamma",
}  # fmt: skip

CONSTANTS = {
    "pi": "pi",
    "infty": "infinity",
    "infinity": "infinity",
    "inf": "infinity",
    "oo": "infinity",
}

ONLY_COMMANDS = frozenset(("Gamma", "arg", "Re", "Im", "tg", "lg", "tr", "trace"))
# Names that are recognized without a backslash.
WORD_COMMANDS = {
    **{name: name for name in FUNCTIONS if name not in ONLY_COMMANDS},
    **{name: name for name in GREEK.values()},
    "inf": "infty", "infinity": "infty", "Infinity": "infty", "oo": "infty", "sqrt": "sqrt",
    "cbrt": "cbrt", "pi": "pi", "Pi": "pi", "PI": "pi", "lg": "lg", "tg": "tan", "binom": "binom",
    "frac": "frac", "union": "cup", "infty": "infty", "times": "times",
}  # fmt: skip

# Short words that are prose, not a product of variables.
STOP_WORDS = """
let get got set sum its but had how who why see use way new now old our own too top say put per off nor
non low did end far few lot job try age big box boy car dog eat egg fee fit fun gas guy hat hit hot key
kid lay leg lie map mix net pay pen run sit tip won yet is are and or the of in no yes not to by at on if
it as an be we so he do up us me my has was all any one two ten six for odd out men am pm th st nd rd mod
day days USD EUR GBP INR Rs tie can may his her she you they AM PM YES
"""
STOP_WORD_SET = frozenset(STOP_WORDS.split())
MAX_LETTERS = 3


def split_letters(word: str, raised: bool = False) -> list[tuple[str, str]] | None:
    """Split a run of letters into (kind, name) parts: known names, else single letters.

    Returns None for prose. A run with an exponent (`raised`) is never a stop word.
    """
    if word in WORD_COMMANDS:
        return [("command", WORD_COMMANDS[word])]
    if len(word) == 1:
        return [("letter", word)]
    prose = word in STOP_WORD_SET or (word.istitle() and word.lower() in STOP_WORD_SET)
    if (prose and not raised) or len(word) > 24:
        return None
    parts = _split_names(word)
    loose = sum(kind == "letter" for kind, _ in parts)
    return parts if loose <= MAX_LETTERS else None


def _split_names(word: str) -> list[tuple[str, str]]:
    parts: list[tuple[str, str]] = []
    at = 0
    while at < len(word):
        name = next(
            (word[at:end] for end in range(len(word), at + 1, -1) if word[at:end] in WORD_COMMANDS), ""
        )
        parts.append(("command", WORD_COMMANDS[name]) if name else ("letter", word[at]))
        at += len(name) or 1
    return parts
