"""Resolves plain scalars by the core schema of YAML 1.2.

`no` and `on` are text, dates are text, `1e-5` is a number, `012` is twelve.
"""

import re

_CONSTANTS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_OCTAL = re.compile(r"0o[0-7]+\Z")
_HEX = re.compile(r"0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_INF_OR_NAN = re.compile(r"([-+]?\.(?:inf|Inf|INF))\Z|(\.(?:nan|NaN|NAN))\Z")
# Recipes need no longer integers, and converting them takes quadratic time.
_MAX_DIGITS = 40


def resolve_scalar(text: str) -> str | int | float | bool | None:
    """The value of a scalar written without quotes."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if not (text[0].isdigit() or text[0] in "+-."):
        return text
    if len(text) <= _MAX_DIGITS and (number := _parse_number(text)) is not None:
        return number
    if _INF_OR_NAN.match(text):
        return float(text.replace(".", "", 1).lower())
    return text


def _parse_number(text: str) -> int | float | None:
    if _INTEGER.match(text):
        return int(text)
    if _FLOAT.match(text):
        return float(text)
    if _OCTAL.match(text):
        return int(text[2:], 8)
    if _HEX.match(text):
        return int(text[2:], 16)
    return None


_NUMBER_LIKE = re.compile(r"[-+]?[0-9][0-9_, ]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?\s*[kKmM%]?\Z")


def suggest_number(text: str) -> str | None:
    """The YAML spelling of text that was meant as a number: 1_000, 4,000, 10k, 5%."""
    if not _NUMBER_LIKE.match(text):
        return None
    scale = {"k": 1_000, "m": 1_000_000, "%": 0.01}.get(text[-1].lower(), 1)
    body = text.rstrip("kKmM%").replace("_", "").replace(",", "").replace(" ", "")
    number = _parse_number(body)
    if number is None:
        return None
    meant = number * scale
    return f"{int(meant)}" if meant == int(meant) and scale != 0.01 else f"{meant:g}"
