"""Parses sums, products, integrals and limits, and gives their bound variables unique names."""

import re
from fractions import Fraction

from posttrain.grading.brackets import closing_index, split_tokens, token_symbol
from posttrain.grading.expression_tree import (
    BOUND_PREFIX,
    Call,
    Constant,
    Node,
    Number,
    Symbol,
    UnsupportedNotation,
    children,
)
from posttrain.grading.latex_tokens import Token
from posttrain.grading.token_cursor import TokenCursor
from posttrain.grading.tree_transform import map_leaves

ONE = Token("number", "1")
LETTER_KINDS = frozenset(("letter", "roman"))


def parse_binder(cursor: TokenCursor, name: str) -> Node:
    """Parse the rest of a \\sum, \\prod, \\int or \\lim, whose command the cursor has just taken."""
    cursor.enter_level()
    lower, upper = _limits(cursor)
    match name:
        case "int":
            node = _integral(cursor, lower, upper)
        case "lim":
            node = _limit(cursor, lower)
        case _:
            node = _series(cursor, name, lower, upper)
    cursor.depth -= 1
    return node


def _limits(cursor: TokenCursor) -> tuple[list[Token], list[Token]]:
    scripts: dict[str, list[Token]] = {"_": [], "^": []}
    while cursor.peek() in scripts:
        place = cursor.take().kind
        scripts[place] = _script(cursor)
    return scripts["_"], scripts["^"]


def _script(cursor: TokenCursor) -> list[Token]:
    if cursor.peek() != "{":
        sign = [cursor.take()] if cursor.peek() in ("-", "+") else []
        return [*sign, cursor.take()]
    end = closing_index(cursor.tokens, cursor.position)
    inner = cursor.tokens[cursor.position + 1 : end]
    cursor.position = end + 1
    return inner


def _variable(tokens: list[Token], name: str) -> str:
    if len(tokens) != 1 or not (tokens[0].kind in LETTER_KINDS or tokens[0].text.isalpha()):
        raise UnsupportedNotation(f"\\{name}")
    return tokens[0].text


def _series(cursor: TokenCursor, name: str, lower: list[Token], upper: list[Token]) -> Node:
    sides, _ = split_tokens(lower, ("=",))
    if len(sides) != 2 or not upper:
        raise UnsupportedNotation(f"\\{name}")
    variable = _variable(sides[0], name)
    low, high = cursor.parse_tokens(sides[1]), cursor.parse_tokens(upper)
    return _bind({"sum": "sum", "prod": "product"}[name], variable, low, high, cursor.product())


def _limit(cursor: TokenCursor, lower: list[Token]) -> Node:
    sides, _ = split_tokens(lower, ("to", "Rightarrow"))
    if len(sides) != 2 or not sides[1]:
        raise UnsupportedNotation("\\lim")
    target = sides[1]
    side: Node = Number(Fraction(0))
    if token_symbol(target[-1]) in ("+", "-") and len(target) > 1:
        side, target = _side(target[-1]), target[:-1]
        target = target[:-1] if token_symbol(target[-1]) == "^" else target
    elif len(target) > 3 and [token_symbol(token) for token in (target[-4], target[-3], target[-1])] == [
        "^",
        "{",
        "}",
    ]:
        side, target = _side(target[-2]), target[:-4]
    return _bind("limit", _variable(sides[0], "lim"), cursor.parse_tokens(target), side, cursor.product())


def _side(token: Token) -> Node:
    return Number(Fraction(1 if token_symbol(token) == "+" else -1))


def _integral(cursor: TokenCursor, lower: list[Token], upper: list[Token]) -> Node:
    """Parse an integral up to `dx`, which may be in the numerator of a fraction."""
    place = _find_differential(cursor.tokens, cursor.position)
    if place is None:
        raise UnsupportedNotation("\\int")
    variable = cursor.tokens[place + 1].text
    depth = _brace_depth(cursor.tokens, cursor.position, place)
    end = place if not depth else _fraction_end(cursor.tokens, place)
    inner = cursor.tokens[cursor.position : place] + ([] if not depth else cursor.tokens[place + 2 : end])
    cursor.position = end + (0 if depth else 2)
    body = cursor.parse_tokens(_fill_empty_braces(inner))
    if not lower or not upper:
        return Call("antiderivative", (Symbol(variable), body))
    return _bind("integral", variable, cursor.parse_tokens(lower), cursor.parse_tokens(upper), body)


def _find_differential(tokens: list[Token], start: int) -> int | None:
    for place in range(start, len(tokens) - 1):
        name = tokens[place + 1]
        if (
            tokens[place].kind in LETTER_KINDS
            and tokens[place].text == "d"
            and (name.kind in LETTER_KINDS or name.text == "theta")
        ):
            return place
    return None


def _brace_depth(tokens: list[Token], start: int, end: int) -> int:
    kinds = [token.kind for token in tokens[start:end]]
    return kinds.count("{") - kinds.count("}")


def _fraction_end(tokens: list[Token], place: int) -> int:
    """The index after the fraction whose numerator contains this index."""
    depth, ends = 1, 0
    for at in range(place, len(tokens)):
        depth += (tokens[at].kind == "{") - (tokens[at].kind == "}")
        ends += tokens[at].kind == "}" and depth == 0
        if ends == 2:
            return at + 1
    raise UnsupportedNotation("\\int")


def _fill_empty_braces(tokens: list[Token]) -> list[Token]:
    """Replace `{}` by `{1}`, and an empty list by 1."""
    filled: list[Token] = []
    for token in tokens:
        if token.kind == "}" and filled and filled[-1].kind == "{":
            filled.append(ONE)
        filled.append(token)
    return filled or [ONE]


def _bind(name: str, variable: str, first: Node, second: Node, body: Node) -> Node:
    """Rename the bound variable to a name that no letter has, so that its letter does not matter."""
    new = f"{BOUND_PREFIX}{_next_bound_index(body)}"

    def renamed(leaf: Node) -> Node:
        if isinstance(leaf, Constant) and leaf.name == variable:
            return Symbol(new)
        if not isinstance(leaf, Symbol):
            return leaf
        stem, _, index = leaf.name.partition("_")
        stem = new if stem == variable else stem
        return Symbol(f"{stem}_{_rename_index(index, variable, new)}" if index else stem)

    return Call(name, (Symbol(new), first, second, map_leaves(body, renamed)))


def _rename_index(index: str, variable: str, new: str) -> str:
    return re.sub(rf"(?<![A-Za-z]){re.escape(variable)}(?![A-Za-z])", new, index)


def _next_bound_index(node: Node) -> int:
    """The first index that no bound variable in the node uses."""
    if isinstance(node, Symbol):
        _, mark, rest = node.name.rpartition(BOUND_PREFIX)
        return int(rest) + 1 if mark and rest.isdigit() else 0
    return max((_next_bound_index(child) for child in children(node)), default=0)
