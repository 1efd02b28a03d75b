"""Evaluates matrices and vectors, and compares them entry by entry."""

from fractions import Fraction

from posttrain.grading.context import Context, Outcome, all_of
from posttrain.grading.expression_tree import (
    Call,
    Group,
    Matrix,
    Node,
    Number,
    ParseError,
    Power,
    Product,
    Quotient,
    Sum,
    Symbol,
    contains_node,
    negate,
    symbols,
)
from posttrain.grading.tree_transform import map_leaves

Rows = list[list[Node]]
MAX_DIMENSION = 5
MAX_POWER = 8
ENTRY_NODES = Matrix | Group
UNIT_VECTORS = ("unit i", "unit j", "unit k")
TRANSPOSE_MARKS = frozenset(("T", "t", "top", "intercal"))
ONE = Number(Fraction(1))
ZERO = Number(Fraction(0))


def matrix_rule(left: Node, right: Node, context: Context) -> Outcome | None:
    size = max(_vector_length(left), _vector_length(right))
    left, right = in_components(left, size), in_components(right, size)
    if not (_is_matrix(left) or _is_matrix(right)):
        return None
    one, two = _rows(left), _rows(right)
    if one is None or two is None:
        return None if one is two else Outcome(False, "a matrix or vector compared with another type")
    if not (_is_matrix(left) and _is_matrix(right)) and 1 in (len(one), len(one[0])):
        one, two = [[cell for row in one for cell in row]], [[cell for row in two for cell in row]]
    if [len(row) for row in one] != [len(row) for row in two]:
        return Outcome(False, "matrices of different shapes")
    return all_of(
        [
            context.compare(a, b, context)
            for r, s in zip(one, two, strict=True)
            for a, b in zip(r, s, strict=True)
        ]
    )


def _vector_length(node: Node) -> int:
    """The length of a vector in any notation, or 0 for other nodes."""
    if isinstance(node, Group):
        return len(node.items)
    if isinstance(node, Matrix):
        return len(node.rows) * len(node.rows[0])
    named = symbols(node)
    return 3 if UNIT_VECTORS[2] in named else 2 if named & set(UNIT_VECTORS[:2]) else 0


def in_components(node: Node, size: int) -> Node:
    """Convert unit vectors to components: 2i + 3j becomes (2, 3)."""
    if isinstance(node, Group | Matrix) or not symbols(node) & set(UNIT_VECTORS) or size not in (2, 3):
        return node

    def component(name: str) -> Node:
        values: dict[str, Node] = {unit: ONE if unit == name else ZERO for unit in UNIT_VECTORS}
        return map_leaves(
            node, lambda leaf: values.get(leaf.name, leaf) if isinstance(leaf, Symbol) else leaf
        )

    return Matrix(tuple((component(unit),) for unit in UNIT_VECTORS[:size]))


def _is_matrix(node: Node) -> bool:
    return isinstance(node, Matrix) or (
        isinstance(node, Product | Sum | Quotient | Power) and contains_node(node, ENTRY_NODES)
    )


def _rows(node: Node) -> Rows | None:
    match node:
        case Matrix(rows):
            return [list(row) for row in rows]
        case Product(factors):
            return _multiplied(factors)
        case Quotient(over, under) if not contains_node(under, ENTRY_NODES):
            return _multiplied((Quotient(ONE, under), over))
        case Power(base, exponent):
            return _matrix_power(_rows(base), exponent)
        case Sum(terms):
            return _matrix_sum([_rows(term) for term in terms])
        case Group("(" | "[", items, _) if items and all(isinstance(item, Group) for item in items):
            rows = [list(item.items) for item in items if isinstance(item, Group)]
            return rows if len({len(row) for row in rows}) == 1 else None
        case Group("(" | "[", items, _):
            return [[item] for item in items]
        case _:
            return None


def _multiplied(factors: tuple[Node, ...]) -> Rows | None:
    """The product of matrices and numbers."""
    numbers = tuple(factor for factor in factors if not contains_node(factor, ENTRY_NODES))
    parts = [_rows(factor) for factor in factors if contains_node(factor, ENTRY_NODES)]
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    result = known[0]
    for part in known[1:]:
        product = _matrix_product(result, part)
        if product is None:
            return None
        result = product
    return [[Product((*numbers, cell)) for cell in row] for row in result] if numbers else result


def _matrix_product(one: Rows, two: Rows) -> Rows | None:
    if len(one[0]) != len(two) or len(one) * len(two) * len(two[0]) > MAX_DIMENSION**3:
        return None
    columns = list(zip(*two, strict=True))
    return [
        [Sum(tuple(Product(pair) for pair in zip(row, column, strict=True))) for column in columns]
        for row in one
    ]


def _matrix_power(rows: Rows | None, exponent: Node) -> Rows | None:
    if rows is None:
        return None
    match exponent:
        case Symbol(name) if name in TRANSPOSE_MARKS:
            return [list(column) for column in zip(*rows, strict=True)]
        case Number(power) if power == -1:
            return _matrix_inverse(rows)
        case Product((Number(sign), Number(power))) if sign * power == -1:
            return _matrix_inverse(rows)
        case Number(power) if power.denominator == 1 and 0 < power <= MAX_POWER:
            result: Rows | None = rows
            for _ in range(int(power) - 1):
                result = _matrix_product(result, rows) if result else None
            return result
        case _:
            return None


def _matrix_inverse(rows: Rows) -> Rows | None:
    if len(rows) != len(rows[0]) or len(rows) > MAX_DIMENSION - 1:
        return None
    whole = _laplace_expansion(rows)
    size = range(len(rows))
    return [[Quotient(_cofactor(rows, column, row), whole) for column in size] for row in size]


def _matrix_sum(parts: list[Rows | None]) -> Rows | None:
    known = [part for part in parts if part is not None]
    shapes = {tuple(len(row) for row in part) for part in known}
    if len(known) < len(parts) or len(shapes) != 1:
        return None
    return [[Sum(cells) for cells in zip(*rows, strict=True)] for rows in zip(*known, strict=True)]


def determinant(node: Node) -> Node:
    """The determinant of a matrix, as an expression of its entries."""
    rows = _rows(node)
    if rows is None or len(rows) != len(rows[0]) or len(rows) > MAX_DIMENSION:
        raise ParseError(f"the determinant needs a square matrix with at most {MAX_DIMENSION} rows")
    return _laplace_expansion(rows)


def _laplace_expansion(rows: Rows) -> Node:
    if len(rows) == 1:
        return rows[0][0]
    return Sum(tuple(Product((rows[0][at], _cofactor(rows, 0, at))) for at in range(len(rows))))


def _cofactor(rows: Rows, row: int, column: int) -> Node:
    rest = [[*cells[:column], *cells[column + 1 :]] for cells in (*rows[:row], *rows[row + 1 :])]
    minor = _laplace_expansion(rest) if rest else ONE
    return negate(minor) if (row + column) % 2 else minor


def trace(node: Node) -> Node:
    rows = _rows(node)
    if rows is None or len(rows) != len(rows[0]):
        raise ParseError("the trace needs a square matrix")
    return Sum(tuple(rows[at][at] for at in range(len(rows))))


def apply_matrix_function(name: str, arguments: tuple[Node, ...]) -> Node:
    """A function call. The determinant and the trace of a matrix are evaluated."""
    if len(arguments) == 1 and contains_node(arguments[0], Matrix):
        if name in ("det", "abs"):
            return determinant(arguments[0])
        if name == "trace":
            return trace(arguments[0])
    return Call(name, arguments)
