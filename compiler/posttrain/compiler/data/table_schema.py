"""What is known of rows between two data steps, and how a step's value is read."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from posttrain.compiler.data.sql import SqlError, bind, check_expression
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import NullStats
from posttrain.spec.record import record

HIDDEN_COLUMNS = {"__row": "integer", "__part": "text"}


@record(kw_only=True)
class TableSchema:
    """What is known of rows at a point between two steps."""

    columns: Columns
    # Parts by name, with their number of rows where it is known.
    parts: Mapping[str, int | None] = field(default_factory=lambda: {"all": None})
    # Whether the row counts are exact or only the most that there can be.
    exact: bool = True
    # Parts whose count is no more than a guess, good for estimates and for no check; and what it goes by.
    estimated_parts: frozenset[str] = frozenset()
    estimate_source: str = ""
    # The columns that rows were seen to leave empty, and whether all those rows are sure to come this far.
    null_counts: Mapping[str, NullStats] = field(default_factory=dict[str, NullStats])
    all_rows_kept: bool = True

    def max_rows(self, part: str | None) -> int | None:
        """The most rows that there can be, of one part or of all; None where that is not known."""
        return None if self.is_estimated(part) else self.expected_rows(part)

    def is_estimated(self, part: str | None) -> bool:
        return part in self.estimated_parts if part else bool(self.estimated_parts)

    def expected_rows(self, part: str | None) -> int | None:
        """The rows that estimates go by."""
        return self.parts.get(part) if part else self.rows

    @property
    def rows(self) -> int | None:
        counts = list(self.parts.values())
        return None if None in counts else sum(count or 0 for count in counts)


class StepError(ValueError):
    """A step that does not fit, with the code's name, a help line and where below the step: in the value
    there, at a word of it where one is given."""

    def __init__(
        self, code: str, message: str, help: str = "", at: tuple[str | int, ...] = (), word: str = ""
    ) -> None:
        super().__init__(message)
        self.kind = code
        self.help = help
        self.path = at
        self.word = word


StepResult = tuple[list[dict[str, Any]], TableSchema]
OtherTables = Mapping[str, TableSchema]


def sql_operation(sql: str, **more: Any) -> list[dict[str, Any]]:
    return [{"op": "sql", "query": sql, **more}]


def require_column(columns: Columns, name: str, at: tuple[str | int, ...]) -> None:
    if name not in columns:
        help, _ = hint(name, columns, what="columns here")
        raise StepError("column", f"there is no column `{name}` here", help, at)


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
        raise StepError("form", "an SQL expression is text", at=at)
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
        quotes = f"; text stands in single quotes: '{error.unknown}'" if "did you" not in help else ""
        message = f"there is no column `{error.unknown}` here"
        raise StepError("sql", message, f"{help}{quotes}", at, word=error.unknown) from None
    return {name: type for name, type in found.items() if name not in HIDDEN_COLUMNS}
