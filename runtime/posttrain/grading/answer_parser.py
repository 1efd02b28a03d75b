"""Parses tokens to a complete answer: lists, relations, sets, intervals, matrices, quantities."""

import re

from posttrain.grading.brackets import (
    closing_index,
    split_tokens,
    split_tokens_at,
    token_symbol,
    top_level_indices,
)
from posttrain.grading.doubt_words import DOUBT, is_task
from posttrain.grading.expression_parser import parse_infix
from posttrain.grading.expression_tree import (
    Builder,
    Call,
    Congruence,
    Dots,
    Group,
    Listing,
    Matrix,
    NamedSet,
    Node,
    ParseError,
    Quantity,
    Ratio,
    Relation,
    SetOperation,
    Symbol,
    Text,
    TooLarge,
)
from posttrain.grading.latex_environments import EnvironmentParser, parse_environment
from posttrain.grading.latex_tokens import Token
from posttrain.grading.quantity_parser import parse_quantity
from posttrain.grading.token_cursor import ParseMode

MAX_DEPTH = 64
MAX_ITEMS = 200
SEPARATORS = {",": ",", ";": ",", "row": ",", "&": ",", "and": "and", "or": "or"}
RELATIONS = {
    "=": "=", "==": "=", ":=": "=", "<": "<", ">": ">", "<=": "<=", "=<": "<=", ">=": ">=", "!=": "!=",
    "<>": "!=", "le": "<=", "ge": ">=", "ne": "!=", "in": "in", "notin": "notin", "approx": "=",
    "equiv": "=", "ll": "<", "gg": ">",
}  # fmt: skip
ARROWS = frozenset(("Rightarrow", "=>"))
OPERATIONS = {"cup": "union", "cap": "intersection", "setminus": "difference"}
DERIVATIVE = re.compile(r"(?:frac\{d\w\}\{d\w\}|d\w/d\w)")
BRACKET_NAMES = {"langle": "(", "rangle": ")", "\\{": "{", "\\}": "}"}


def parse_listing(tokens: list[Token], mode: ParseMode, depth: int) -> Node:
    """Parse items with separators, or a single item."""
    runs, separators = split_tokens(tokens, SEPARATORS)
    if len(runs) > MAX_ITEMS:
        raise TooLarge(f"more than {MAX_ITEMS} items")
    runs = [run for run in runs if run]
    if not runs:
        raise ParseError("empty expression")
    if len(runs) == 1 and not separators:
        return parse_item(runs[0], mode, depth)
    items = tuple(parse_item(run, mode, depth) for run in runs)
    names = {SEPARATORS[token.kind] for token in separators}
    return Listing(items, "or" if "or" in names else "and" if "and" in names else ",")


def parse_item(tokens: list[Token], mode: ParseMode, depth: int) -> Node:
    """Parse a chain of relations, or a single expression."""
    tokens = split_tokens(tokens, ARROWS)[0][-1]
    if [token_symbol(token) for token in tokens] == ["ldots"]:
        return Dots()
    if modulus := _find_modulus(tokens):
        return _parse_congruence(tokens, modulus, mode, depth)
    runs, operators = split_tokens(_merge_negations(tokens), RELATIONS)
    if len(runs) == 1:
        return parse_ratio(tokens, mode, depth)
    if not runs[0]:
        return (
            parse_item(tokens[1:], mode, depth)
            if token_symbol(tokens[0]) == "="
            else _reject_missing_left_side(tokens, mode, depth)
        )
    sides = (parse_label(runs[0], mode, depth), *(parse_ratio(run, mode, depth) for run in runs[1:]))
    names = tuple(RELATIONS[token_symbol(token)] for token in operators)
    if set(names) != {"="} and any(isinstance(one, Text) and " " in one.words for one in sides):
        raise ParseError("words in a relation")
    return Relation(sides, names)


def _merge_negations(tokens: list[Token]) -> list[Token]:
    """Merge `\\not=` and `\\not\\in` to one token."""
    merged: list[Token] = []
    for token in tokens:
        if merged and merged[-1].text == "not" and token_symbol(token) in ("=", "in"):
            merged[-1] = Token("command", "ne" if token_symbol(token) == "=" else "notin")
        else:
            merged.append(token)
    return merged


def _reject_missing_left_side(tokens: list[Token], mode: ParseMode, depth: int) -> Node:
    """Reject a relation such as `< x`. A vector <1, 2> does not get here: it is split at its commas first."""
    raise ParseError("a relation without a left side")


def parse_label(tokens: list[Token], mode: ParseMode, depth: int) -> Node:
    """Parse the left side of a relation: an expression, a function such as f(x), or words."""
    name = tokens[0]
    _check_label_words(tokens)
    if len(tokens) > 3 and name.kind == "letter" and tokens[-1].kind == ")":
        start = next((place for place, token in enumerate(tokens) if token.kind == "("), 0)
        applied = start == 1 or tokens[1].kind in ("^", "_", "'")
        if start and applied and closing_index(tokens, start) == len(tokens) - 1 and name.text not in "ei":
            named = ":" + "".join(token.text for token in tokens[:start])
            lone = (
                tokens[start + 1] if len(tokens) == start + 3 and tokens[start + 1].kind == "letter" else None
            )
            return Call(named, (Symbol(lone.text),) if lone else ())
    if DERIVATIVE.fullmatch("".join(token.text for token in tokens)):
        return Call(":derivative", ())
    if any(token.kind == "text" for token in tokens) and all(
        token.kind in ("text", "letter", "(", ")", "-", "'") for token in tokens
    ):
        return Text(" ".join(token.text for token in tokens))
    return parse_ratio(tokens, mode, depth)


def _check_label_words(tokens: list[Token]) -> None:
    """Reject a label such as `wrong answer` or `Suppose x`."""
    words = " ".join(token.text for token in tokens if token.kind == "text")
    if words and (DOUBT.search(words) or is_task(words)):
        raise ParseError("words that do not state an answer")


def _find_modulus(tokens: list[Token]) -> int | None:
    for place, token in enumerate(tokens):
        if token_symbol(token) in ("pmod", "bmod", "mod") or (
            token.kind == "text" and token.text.lower() == "mod"
        ):
            return place or None
    return None


def _parse_congruence(tokens: list[Token], place: int, mode: ParseMode, depth: int) -> Node:
    before, after = tokens[:place], tokens[place + 1 :]
    if before and before[-1].kind == "(" and after and after[-1].kind == ")":
        before, after = before[:-1], after[:-1]
    runs, _ = split_tokens(before, ("=", "equiv"))
    sides = [parse_side(run, mode, depth) for run in runs if run]
    if len(sides) not in (1, 2):
        raise ParseError("invalid congruence")
    return Congruence(sides[0] if len(sides) == 2 else Text(""), sides[-1], parse_side(after, mode, depth))


def parse_ratio(tokens: list[Token], mode: ParseMode, depth: int) -> Node:
    runs, colons = split_tokens(tokens, (":",))
    if not colons:
        return parse_side(tokens, mode, depth)
    names = len(runs) == 2 and all(token.kind in ("text", "letter", "-") for token in runs[0])
    if names:
        _check_label_words(runs[0])
    if names and not (runs[1] and {token.kind for token in (*runs[0], runs[1][0])} == {"letter"}):
        return Relation((Text(" ".join(t.text for t in runs[0])), parse_side(runs[1], mode, depth)), ("=",))
    parts = tuple(parse_side(run, mode, depth) for run in runs)
    last = parts[-1]
    return (
        Quantity(Ratio((*parts[:-1], last.value)), last.unit) if isinstance(last, Quantity) else Ratio(parts)
    )


def parse_side(tokens: list[Token], mode: ParseMode, depth: int) -> Node:
    """Parse set operations, a quantity, or an expression."""
    runs, operators = split_tokens(tokens, OPERATIONS)
    if len(runs) == 1:
        runs, operators = _capital_union(tokens)
    node = parse_part(runs[0], mode, depth)
    for operator, run in zip(operators, runs[1:], strict=True):
        name = OPERATIONS.get(token_symbol(operator), "union")
        node = SetOperation(name, node, parse_part(run, mode, depth))
    return node


def _capital_union(tokens: list[Token]) -> tuple[list[list[Token]], list[Token]]:
    """Split at a capital U between brackets, which is a union: (1,2) U (3,4)."""
    if not any(token.text == "U" for token in tokens):
        return [tokens], []
    places = [
        place
        for place in top_level_indices(tokens)
        if tokens[place].text == "U" and 0 < place < len(tokens) - 1
        if token_symbol(tokens[place - 1]) in (")", "]", "\\}")
        and token_symbol(tokens[place + 1]) in ("(", "[", "\\{")
    ]
    return split_tokens_at(tokens, places)


def parse_part(tokens: list[Token], mode: ParseMode, depth: int) -> Node:
    def expression(core: list[Token]) -> Node:
        if not core:
            raise ParseError("missing expression")
        return parse_infix(core, mode, depth, parse_bracketed)

    return parse_quantity(tokens, mode, expression)


def parse_bracketed(tokens: list[Token], mode: ParseMode, depth: int) -> Node:
    """Parse tokens whose first and last are a pair of brackets."""
    if depth > MAX_DEPTH:
        raise TooLarge(f"nested deeper than {MAX_DEPTH}")
    opening, closing_ = token_symbol(tokens[0]), token_symbol(tokens[-1])
    content = tokens[1:-1]
    if opening == "begin":
        return parse_environment(
            tokens[0].text, content, EnvironmentParser(parse_listing, parse_item, mode, depth)
        )
    if opening in ("lfloor", "lceil"):
        return Call("floor" if opening == "lfloor" else "ceil", (parse_listing(content, mode, depth),))
    first, last = BRACKET_NAMES.get(opening, opening), BRACKET_NAMES.get(closing_, closing_)
    if not content:
        if opening != "\\{":
            raise ParseError("empty brackets")
        return NamedSet("empty")
    if first == "{" and (builder := _parse_set_builder(content, mode, depth)):
        return builder
    if opening == "{" and any(token_symbol(token) in ("over", "choose") for token in content):
        return parse_infix(content, mode, depth, parse_bracketed)
    return _make_group(first, parse_listing(content, mode, depth), last, opening)


def _make_group(first: str, node: Node, last: str, opening: str) -> Node:
    if isinstance(node, Listing):
        return Group(first, node.items, last)
    if opening == "\\{":
        return Group(first, (node,), last)
    if isinstance(node, Matrix) and node.rows and first in "([{":
        return node
    return node


def _parse_set_builder(content: list[Token], mode: ParseMode, depth: int) -> Node | None:
    bars = [place for place in top_level_indices(content) if content[place].kind in ("|", ":")]
    if not bars or bars[0] == 0 or not any(token_symbol(token) in RELATIONS for token in content[bars[0] :]):
        return None
    if content[bars[0]].kind == "|" and len(bars) % 2 == 0:
        return None
    element, condition = content[: bars[0]], content[bars[0] + 1 :]
    return Builder(parse_item(element, mode, depth), parse_listing(condition, mode, depth))
