"""Sums, products, integrals and limits as they are written; what they bind gets a name of its own."""

import re
from fractions import Fraction

from posttrain.runtime.grading.brackets import closing, mark, split
from posttrain.runtime.grading.cursor import Cursor
from posttrain.runtime.grading.rebuild import rebuilt
from posttrain.runtime.grading.tokens import Token
from posttrain.runtime.grading.tree import (
    BOUND,
    Call,
    Constant,
    Node,
    Number,
    Symbol,
    Unknown,
    children,
)

ONE = Token("number", "1")
NAMED = frozenset(("letter", "roman"))


def binder(cursor: Cursor, name: str) -> Node:
    """The node of the \\sum, \\prod, \\int or \\lim that the cursor has just taken."""
    cursor.deeper()
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


def _limits(cursor: Cursor) -> tuple[list[Token], list[Token]]:
    found: dict[str, list[Token]] = {"_": [], "^": []}
    while cursor.here() in found:
        place = cursor.take().kind
        found[place] = _script(cursor)
    return found["_"], found["^"]


def _script(cursor: Cursor) -> list[Token]:
    if cursor.here() != "{":
        sign = [cursor.take()] if cursor.here() in ("-", "+") else []
        return [*sign, cursor.take()]
    end = closing(cursor.tokens, cursor.at)
    inner = cursor.tokens[cursor.at + 1 : end]
    cursor.at = end + 1
    return inner


def _variable(tokens: list[Token], name: str) -> str:
    if len(tokens) != 1 or not (tokens[0].kind in NAMED or tokens[0].text.isalpha()):
        raise Unknown(f"\\{name}")
    return tokens[0].text


def _series(cursor: Cursor, name: str, lower: list[Token], upper: list[Token]) -> Node:
    sides, _ = split(lower, ("=",))
    if len(sides) != 2 or not upper:
        raise Unknown(f"\\{name}")
    variable = _variable(sides[0], name)
    low, high = cursor.parsed(sides[1]), cursor.parsed(upper)
    return _bind({"sum": "sum", "prod": "product"}[name], variable, low, high, cursor.product())


def _limit(cursor: Cursor, lower: list[Token]) -> Node:
    sides, _ = split(lower, ("to", "Rightarrow"))
    if len(sides) != 2 or not sides[1]:
        raise Unknown("\\lim")
    target = sides[1]
    side: Node = Number(Fraction(0))
    if mark(target[-1]) in ("+", "-") and len(target) > 1:
        side, target = _side(target[-1]), target[:-1]
        target = target[:-1] if mark(target[-1]) == "^" else target
    elif len(target) > 3 and [mark(token) for token in (target[-4], target[-3], target[-1])] == [
        "^",
        "{",
        "}",
    ]:
        side, target = _side(target[-2]), target[:-4]
    return _bind("limit", _variable(sides[0], "lim"), cursor.parsed(target), side, cursor.product())


def _side(token: Token) -> Node:
    return Number(Fraction(1 if mark(token) == "+" else -1))


def _integral(cursor: Cursor, lower: list[Token], upper: list[Token]) -> Node:
    """Up to the d of `dx`, which may stand above a fraction bar."""
    place = _differential(cursor.tokens, cursor.at)
    if place is None:
        raise Unknown("\\int")
    variable = cursor.tokens[place + 1].text
    depth = _depth(cursor.tokens, cursor.at, place)
    end = place if not depth else _end(cursor.tokens, place)
    inner = cursor.tokens[cursor.at : place] + ([] if not depth else cursor.tokens[place + 2 : end])
    cursor.at = end + (0 if depth else 2)
    body = cursor.parsed(_filled(inner))
    if not lower or not upper:
        return Call("antiderivative", (Symbol(variable), body))
    return _bind("integral", variable, cursor.parsed(lower), cursor.parsed(upper), body)


def _differential(tokens: list[Token], start: int) -> int | None:
    for place in range(start, len(tokens) - 1):
        name = tokens[place + 1]
        if (
            tokens[place].kind in NAMED
            and tokens[place].text == "d"
            and (name.kind in NAMED or name.text == "theta")
        ):
            return place
    return None


def _depth(tokens: list[Token], start: int, end: int) -> int:
    kinds = [token.kind for token in tokens[start:end]]
    return kinds.count("{") - kinds.count("}")


def _end(tokens: list[Token], place: int) -> int:
    """Behind the fraction in whose numerator the place lies."""
    depth, ends = 1, 0
    for at in range(place, len(tokens)):
        depth += (tokens[at].kind == "{") - (tokens[at].kind == "}")
        ends += tokens[at].kind == "}" and depth == 0
        if ends == 2:
            return at + 1
    raise Unknown("\\int")


def _filled(tokens: list[Token]) -> list[Token]:
    """`{}` as `{1}`, and nothing as 1."""
    made: list[Token] = []
    for token in tokens:
        if token.kind == "}" and made and made[-1].kind == "{":
            made.append(ONE)
        made.append(token)
    return made or [ONE]


def _bind(name: str, variable: str, first: Node, second: Node, body: Node) -> Node:
    """The variable becomes a name that no letter has: which one was written does not matter."""
    new = f"{BOUND}{_taken(body)}"

    def renamed(leaf: Node) -> Node:
        if isinstance(leaf, Constant) and leaf.name == variable:
            return Symbol(new)
        if not isinstance(leaf, Symbol):
            return leaf
        stem, _, index = leaf.name.partition("_")
        stem = new if stem == variable else stem
        return Symbol(f"{stem}_{_reindexed(index, variable, new)}" if index else stem)

    return Call(name, (Symbol(new), first, second, rebuilt(body, renamed)))


def _reindexed(index: str, variable: str, new: str) -> str:
    return re.sub(rf"(?<![A-Za-z]){re.escape(variable)}(?![A-Za-z])", new, index)


def _taken(node: Node) -> int:
    """How many names of bound variables are taken in a node."""
    if isinstance(node, Symbol):
        _, mark, rest = node.name.rpartition(BOUND)
        return int(rest) + 1 if mark and rest.isdigit() else 0
    return max((_taken(child) for child in children(node)), default=0)
