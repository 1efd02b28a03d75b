"""Parses LaTeX environments: matrices, systems of equations, piecewise functions."""

from collections.abc import Callable
from dataclasses import dataclass

from posttrain.grading.brackets import split_tokens
from posttrain.grading.expression_tree import (
    Cases,
    Listing,
    Matrix,
    Node,
    ParseError,
    Relation,
    Text,
    TooLarge,
    UnsupportedNotation,
)
from posttrain.grading.latex_tokens import Token
from posttrain.grading.matrices import determinant
from posttrain.grading.token_cursor import ParseMode

MAX_ENTRIES = 200
MATRIX_NAMES = """
matrix pmatrix bmatrix Bmatrix smallmatrix psmallmatrix bsmallmatrix array tabular vmatrix
"""
MATRICES = frozenset(MATRIX_NAMES.split())
SYSTEM_NAMES = "cases dcases rcases aligned align gathered split alignedat gather equation eqnarray"
SYSTEMS = frozenset(SYSTEM_NAMES.split())
CONDITIONS = frozenset(("if", "for", "when", "where", "if and only if", "provided"))
OTHERWISE = frozenset(("otherwise", "else", "elsewhere"))
ParseTokens = Callable[[list[Token], ParseMode, int], Node]


@dataclass(frozen=True, slots=True)
class EnvironmentParser:
    """Parses the content of cells with the parsers of complete answers."""

    listing_parser: ParseTokens
    item_parser: ParseTokens
    mode: ParseMode
    depth: int

    def parse_content(self, tokens: list[Token]) -> Node:
        return self.listing_parser(tokens, self.mode, self.depth)

    def parse_cell(self, tokens: list[Token]) -> Node:
        return self.item_parser(tokens, self.mode, self.depth)


def parse_environment(name: str, content: list[Token], parser: EnvironmentParser) -> Node:
    if name in SYSTEMS:
        rows = [row for row in split_tokens(content, ("row",))[0] if row]
        branches = [_parse_branch(row, parser) for row in rows]
        cases = tuple(branch for branch in branches if branch)
        if cases and len(cases) == len(rows):
            return Cases(cases)
        return parser.parse_content([token for token in content if token.kind != "&"])
    if name not in MATRICES:
        raise UnsupportedNotation(f"\\begin{{{name}}}")
    matrix = _parse_matrix(content, parser)
    return determinant(matrix) if name == "vmatrix" else matrix


def _parse_branch(row: list[Token], parser: EnvironmentParser) -> tuple[Node, Node] | None:
    """A value and its condition after `&` or `if`, or None for an equation of a system."""
    cells = split_tokens(row, ("&",))[0]
    words = [place for place, token in enumerate(row) if _token_word(token) in CONDITIONS | OTHERWISE]
    if len(cells) != 2 and words:
        cells = [row[: words[0]], row[words[0] :]]
    if len(cells) != 2 or not cells[0]:
        return None
    value, condition = cells
    while condition and (_token_word(condition[0]) in CONDITIONS or condition[0].kind in (",", ":")):
        condition = condition[1:]
    while value[-1:] and value[-1].kind in (",", "&", ";", ":"):
        value = value[:-1]
    while condition[-1:] and condition[-1].kind in (",", ";", "."):
        condition = condition[:-1]
    if not value or not condition:
        return None
    if _token_word(condition[0]) in OTHERWISE:
        return parser.parse_cell(value), Text("otherwise")
    if condition[0].kind in ("=", "<", ">") or "=" in [token.kind for token in value]:
        return None
    known = parser.parse_content(condition)
    return (parser.parse_cell(value), known) if isinstance(known, Relation | Listing) else None


def _token_word(token: Token) -> str:
    return token.text.strip(" ,").lower() if token.kind == "text" else ""


def _parse_matrix(content: list[Token], parser: EnvironmentParser) -> Matrix:
    lines, _ = split_tokens(content, ("row",))
    cells = [split_tokens(line, ("&",))[0] for line in lines if line]
    if sum(len(row) for row in cells) > MAX_ENTRIES:
        raise TooLarge(f"more than {MAX_ENTRIES} entries")
    matrix = Matrix(tuple(tuple(parser.parse_cell(cell) for cell in row) for row in cells))
    if not matrix.rows or len({len(row) for row in matrix.rows}) != 1:
        raise ParseError("a matrix with rows of different lengths")
    return matrix
