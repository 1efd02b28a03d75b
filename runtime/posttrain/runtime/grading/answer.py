"""Tokens to a whole answer: lists, relations, sets, intervals, matrices, quantities."""

import re

from posttrain.runtime.grading.brackets import closing, mark, outside, split, split_at
from posttrain.runtime.grading.cursor import Mode
from posttrain.runtime.grading.environments import Reader, environment
from posttrain.runtime.grading.expression import infix
from posttrain.runtime.grading.quantities import quantity
from posttrain.runtime.grading.tokens import Token
from posttrain.runtime.grading.tree import (
    Builder,
    Call,
    Congruence,
    Dots,
    Group,
    Listing,
    Matrix,
    NamedSet,
    Node,
    Quantity,
    Ratio,
    Relation,
    SetOperation,
    Symbol,
    Text,
    TooLarge,
    Unreadable,
)

DEPTH_AT_MOST = 64
ITEMS_AT_MOST = 200
JOINTS = {",": ",", ";": ",", "row": ",", "&": ",", "and": "and", "or": "or"}
RELATIONS = {
    "=": "=", "==": "=", ":=": "=", "<": "<", ">": ">", "<=": "<=", "=<": "<=", ">=": ">=", "!=": "!=",
    "<>": "!=", "le": "<=", "ge": ">=", "ne": "!=", "in": "in", "notin": "notin", "approx": "=",
    "equiv": "=", "ll": "<", "gg": ">",
}  # fmt: skip
ARROWS = frozenset(("Rightarrow", "=>"))
OPERATIONS = {"cup": "union", "cap": "intersection", "setminus": "difference"}
DERIVATIVE = re.compile(r"(?:frac\{d\w\}\{d\w\}|d\w/d\w)")
BRACKET_NAMES = {"langle": "(", "rangle": ")", "\\{": "{", "\\}": "}"}


def listing(tokens: list[Token], mode: Mode, depth: int) -> Node:
    """Items beside each other, or the only item."""
    runs, joints = split(tokens, JOINTS)
    if len(runs) > ITEMS_AT_MOST:
        raise TooLarge(f"more than {ITEMS_AT_MOST} items")
    runs = [run for run in runs if run]
    if not runs:
        raise Unreadable("nothing stands here")
    if len(runs) == 1 and not joints:
        return item(runs[0], mode, depth)
    items = tuple(item(run, mode, depth) for run in runs)
    names = {JOINTS[token.kind] for token in joints}
    return Listing(items, "or" if "or" in names else "and" if "and" in names else ",")


def item(tokens: list[Token], mode: Mode, depth: int) -> Node:
    """A chain of relations, or one side."""
    tokens = split(tokens, ARROWS)[0][-1]
    if [mark(token) for token in tokens] == ["ldots"]:
        return Dots()
    if modulus := _modulus(tokens):
        return _congruence(tokens, modulus, mode, depth)
    runs, operators = split(_negated(tokens), RELATIONS)
    if len(runs) == 1:
        return ratio(tokens, mode, depth)
    if not runs[0]:
        return item(tokens[1:], mode, depth) if mark(tokens[0]) == "=" else _angled(tokens, mode, depth)
    sides = (label(runs[0], mode, depth), *(ratio(run, mode, depth) for run in runs[1:]))
    names = tuple(RELATIONS[mark(token)] for token in operators)
    if set(names) != {"="} and any(isinstance(one, Text) and " " in one.words for one in sides):
        raise Unreadable("words in a relation")
    return Relation(sides, names)


def _negated(tokens: list[Token]) -> list[Token]:
    """`\\not=` and `\\not\\in` as one token."""
    made: list[Token] = []
    for token in tokens:
        if made and made[-1].text == "not" and mark(token) in ("=", "in"):
            made[-1] = Token("command", "ne" if mark(token) == "=" else "notin")
        else:
            made.append(token)
    return made


def _angled(tokens: list[Token], mode: Mode, depth: int) -> Node:
    """<1, 2> as a vector is split at its commas before it comes here, so only <x> can arrive."""
    raise Unreadable("a relation has no left side")


def label(tokens: list[Token], mode: Mode, depth: int) -> Node:
    """The left side of a relation: an expression, a name applied to arguments, or words."""
    name = tokens[0]
    if len(tokens) > 3 and name.kind == "letter" and tokens[-1].kind == ")":
        start = next((place for place, token in enumerate(tokens) if token.kind == "("), 0)
        applied = start == 1 or tokens[1].kind in ("^", "_", "'")
        if start and applied and closing(tokens, start) == len(tokens) - 1 and name.text not in "ei":
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
    return ratio(tokens, mode, depth)


def _modulus(tokens: list[Token]) -> int | None:
    for place, token in enumerate(tokens):
        if mark(token) in ("pmod", "bmod", "mod") or (token.kind == "text" and token.text.lower() == "mod"):
            return place or None
    return None


def _congruence(tokens: list[Token], place: int, mode: Mode, depth: int) -> Node:
    before, after = tokens[:place], tokens[place + 1 :]
    if before and before[-1].kind == "(" and after and after[-1].kind == ")":
        before, after = before[:-1], after[:-1]
    runs, _ = split(before, ("=", "equiv"))
    sides = [side(run, mode, depth) for run in runs if run]
    if len(sides) not in (1, 2):
        raise Unreadable("a congruence could not be read")
    return Congruence(sides[0] if len(sides) == 2 else Text(""), sides[-1], side(after, mode, depth))


def ratio(tokens: list[Token], mode: Mode, depth: int) -> Node:
    runs, colons = split(tokens, (":",))
    if not colons:
        return side(tokens, mode, depth)
    names = len(runs) == 2 and all(token.kind in ("text", "letter", "-") for token in runs[0])
    if names and not (runs[1] and {token.kind for token in (*runs[0], runs[1][0])} == {"letter"}):
        return Relation((Text(" ".join(t.text for t in runs[0])), side(runs[1], mode, depth)), ("=",))
    parts = tuple(side(run, mode, depth) for run in runs)
    last = parts[-1]
    return (
        Quantity(Ratio((*parts[:-1], last.value)), last.unit) if isinstance(last, Quantity) else Ratio(parts)
    )


def side(tokens: list[Token], mode: Mode, depth: int) -> Node:
    """Sets joined by operations, a quantity, or an expression."""
    runs, operators = split(tokens, OPERATIONS)
    if len(runs) == 1:
        runs, operators = _capital_union(tokens)
    node = part(runs[0], mode, depth)
    for operator, run in zip(operators, runs[1:], strict=True):
        name = OPERATIONS.get(mark(operator), "union")
        node = SetOperation(name, node, part(run, mode, depth))
    return node


def _capital_union(tokens: list[Token]) -> tuple[list[list[Token]], list[Token]]:
    """(1,2) U (3,4): the letter between brackets is a union; so is a backslash a difference."""
    if not any(token.text == "U" for token in tokens):
        return [tokens], []
    places = [
        place
        for place in outside(tokens)
        if tokens[place].text == "U" and 0 < place < len(tokens) - 1
        if mark(tokens[place - 1]) in (")", "]", "\\}") and mark(tokens[place + 1]) in ("(", "[", "\\{")
    ]
    return split_at(tokens, places)


def part(tokens: list[Token], mode: Mode, depth: int) -> Node:
    def expression(core: list[Token]) -> Node:
        if not core:
            raise Unreadable("something is missing")
        return infix(core, mode, depth, inside)

    return quantity(tokens, mode, expression)


def inside(tokens: list[Token], mode: Mode, depth: int) -> Node:
    """What a pair of brackets holds, the brackets being the first and last of the tokens."""
    if depth > DEPTH_AT_MOST:
        raise TooLarge(f"nested deeper than {DEPTH_AT_MOST}")
    opening, closing_ = mark(tokens[0]), mark(tokens[-1])
    content = tokens[1:-1]
    if opening == "begin":
        return environment(tokens[0].text, content, Reader(listing, item, mode, depth))
    if opening in ("lfloor", "lceil"):
        return Call("floor" if opening == "lfloor" else "ceil", (listing(content, mode, depth),))
    first, last = BRACKET_NAMES.get(opening, opening), BRACKET_NAMES.get(closing_, closing_)
    if not content:
        if opening != "\\{":
            raise Unreadable("brackets with nothing in them")
        return NamedSet("empty")
    if first == "{" and (built := _builder(content, mode, depth)):
        return built
    if opening == "{" and any(mark(token) in ("over", "choose") for token in content):
        return infix(content, mode, depth, inside)
    return _grouped(first, listing(content, mode, depth), last, opening)


def _grouped(first: str, node: Node, last: str, opening: str) -> Node:
    if isinstance(node, Listing):
        return Group(first, node.items, last)
    if opening == "\\{":
        return Group(first, (node,), last)
    if isinstance(node, Matrix) and node.rows and first in "([{":
        return node
    return node


def _builder(content: list[Token], mode: Mode, depth: int) -> Node | None:
    bars = [place for place in outside(content) if content[place].kind in ("|", ":")]
    if not bars or bars[0] == 0 or not any(mark(token) in RELATIONS for token in content[bars[0] :]):
        return None
    if content[bars[0]].kind == "|" and len(bars) % 2 == 0:
        return None
    element, condition = content[: bars[0]], content[bars[0] + 1 :]
    return Builder(item(element, mode, depth), listing(condition, mode, depth))
