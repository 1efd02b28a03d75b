"""The schema of the rows between two data steps, and the parsing of step values."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from posttrain.compiler.data.sql import SqlError, bind, check_expression
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import NullStats
from posttrain.spec.record import record
from posttrain.spec.step_params.data_params import Operation, RowRequirement, SqlOperation
from posttrain.spec.suggestions import hint

HIDDEN_COLUMNS = {"__row": "integer", "__part": "text"}


@record(kw_only=True)
class TableSchema:
    """The columns, parts, row counts and null counts of the rows at a point between two steps."""

    columns: Columns
    # The parts by name, with their number of rows if known.
    parts: Mapping[str, int | None] = field(default_factory=lambda: {"all": None})
    # Whether the row counts are exact; otherwise they are upper bounds.
    exact: bool = True
    # Parts whose row count is a guess, used for estimates but not for checks, and the source of the guess.
    estimated_parts: frozenset[str] = frozenset()
    estimate_source: str = ""
    # The columns with null values, and whether all rows with nulls are certain to reach this point.
    null_counts: Mapping[str, NullStats] = field(default_factory=dict[str, NullStats])
    all_rows_kept: bool = True
    # The fields of turns in the rows of a source, before any step: see InferredSchema.
    turn_fields: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    def max_rows(self, part: str | None) -> int | None:
        """Return the largest possible number of rows of a part or of the table, or None if it is unknown."""
        return None if self.is_estimated(part) else self.expected_rows(part)

    def is_estimated(self, part: str | None) -> bool:
        return part in self.estimated_parts if part else bool(self.estimated_parts)

    def expected_rows(self, part: str | None) -> int | None:
        """Return the number of rows for estimates."""
        return self.parts.get(part) if part else self.rows

    @property
    def rows(self) -> int | None:
        counts = list(self.parts.values())
        return None if None in counts else sum(count or 0 for count in counts)


class StepError(ValueError):
    """An invalid step: the kind of error, a help line, and the place below the step. `word` marks one word
    of the text at that place."""

    def __init__(
        self, code: str, message: str, help: str = "", at: tuple[str | int, ...] = (), word: str = ""
    ) -> None:
        super().__init__(message)
        self.kind = code
        self.help = help
        self.path = at
        self.word = word


StepResult = tuple[list[Operation], TableSchema]
OtherTables = Mapping[str, TableSchema]


def sql_operation(
    sql: str, *, other: str | None = None, needs: RowRequirement | None = None
) -> list[Operation]:
    return [SqlOperation(query=sql, other=other, needs=needs)]


def require_column(columns: Columns, name: str, at: tuple[str | int, ...]) -> None:
    if name not in columns:
        help, _ = hint(name, columns, what="columns here")
        raise StepError("column", f"unknown column `{name}`", help, at)


def parse_columns(value: Any, what: str) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise StepError("form", f"`{what}` takes a column or a list of columns")
    return [str(name) for name in names]


def parse_mapping(value: Any, what: str, form: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise StepError("form", f"`{what}` takes a mapping such as {form}")
    return {str(key): item for key, item in value.items()}


def parse_expression(value: Any, at: tuple[str | int, ...] = ()) -> str:
    if not isinstance(value, str):
        raise StepError("form", "an SQL expression must be text", at=at)
    try:
        check_expression(value)
    except ValueError as error:
        raise StepError("sql", str(error), at=at) from None
    return value


def bind_query(query: str, table: TableSchema, at: tuple[str | int, ...] = (), **more: Columns) -> Columns:
    try:
        found = bind(query, {"rows": {**table.columns, **HIDDEN_COLUMNS}, **more})
    except SqlError as error:
        if not error.unknown:
            raise StepError("sql", str(error), at=at) from None
        help, _ = hint(error.unknown, table.columns, what="columns here")
        quotes = f"; write text in single quotes: '{error.unknown}'" if "did you" not in help else ""
        message = f"unknown column `{error.unknown}`"
        raise StepError("sql", message, f"{help}{quotes}", at, word=error.unknown) from None
    return {name: type for name, type in found.items() if name not in HIDDEN_COLUMNS}
