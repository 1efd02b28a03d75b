"""Formats one scalar: its quotes, and the lines of a multi-line text."""

import re

from posttrain.compiler.format.yaml_syntax import ScalarText

# Single-quoted text that needs no escapes in double quotes.
_SIMPLE_SINGLE_QUOTED = re.compile(r"""'(?:[^'"\\\x00-\x1f\x7f-\x9f]|'')*'\Z""")


def normalize_quotes(text: str) -> str:
    """A scalar with double quotes instead of single quotes, if that needs no escapes."""
    if _SIMPLE_SINGLE_QUOTED.match(text):
        return '"' + text[1:-1].replace("''", "'") + '"'
    return text


def scalar_lines(word: ScalarText, indent: int) -> list[str]:
    """The lines of a scalar: the first one follows its key, the others are at `indent`."""
    text = normalize_quotes(word.text)
    mark = f"&{word.anchor}" if word.anchor else ""
    if "\n" not in text:
        return [f"{mark} {text}".strip()]
    first, *rest = text.split("\n")
    rest = _block_scalar_lines(first, rest, indent) if text[0] in "|>" else _flow_scalar_lines(rest, indent)
    return [f"{mark} {first.rstrip()}".strip(), *rest]


def _block_scalar_lines(head: str, rest: list[str], indent: int) -> list[str]:
    """The lines of a `|` or `>` block, shifted by the same width."""
    while rest and not rest[-1].strip() and "+" not in head:
        rest.pop()
    if rest and not rest[-1]:
        rest.pop()  # the terminator of the last line, not a line of its own
    depths = [len(line) - len(line.lstrip(" ")) for line in rest if line.strip(" ")]
    depth = min(depths, default=0)
    return [" " * indent + line[depth:] if line.strip(" ") else line[depth:] for line in rest]


def _flow_scalar_lines(rest: list[str], indent: int) -> list[str]:
    """The continuation lines of a plain or quoted text, whose indentation is insignificant."""
    return [" " * indent + line.strip(" \t") if line.strip(" \t") else "" for line in rest]
