"""The work grows with the number of columns, not with its square."""

import json
from collections.abc import Callable
from typing import Any

import duckdb
import pytest

from posttrain.compiler.data import sql, table_schema
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE
from posttrain.compiler.pipeline import CompileResult, compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.errors import StepError
from posttrain.runtime.sources.column_casting import check_columns_not_empty, load_json_columns

WIDTH = 1_200


class CountingConnection:
    """Counts the statements."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.statements: list[str] = []

    def execute(self, query: str, *parameters: Any) -> Any:
        self.statements.append(query)
        return self.connection.execute(query, *parameters)


@pytest.fixture
def bindings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that the compiler binds."""
    found: list[str] = []
    bind: Callable[..., Any] = sql.bind

    def count(query: str, tables: Any) -> Any:
        found.append(query)
        return bind(query, tables)

    monkeypatch.setattr(table_schema, "bind", count)
    return found


def compile_derive(expressions: dict[str, str]) -> CompileResult:
    step = json.dumps({"derive": expressions})
    text = MINIMAL_RECIPE.replace("    steps:\n", f"    steps:\n      - {step}\n")
    source = SourceFile("recipe.yaml", text.encode())
    return compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=lambda _: None))


def test_the_expressions_of_a_step_are_bound_together(bindings: list[str]) -> None:
    outcome = compile_derive({f"c{number}": "length(answer)" for number in range(300)})
    assert outcome.plan is not None
    assert len(bindings) <= 4


@pytest.mark.parametrize("wrong", [0, 150, 299])
def test_an_invalid_expression_is_found_among_many(wrong: int, bindings: list[str]) -> None:
    expressions = {f"c{number}": "length(answer)" for number in range(300)}
    outcome = compile_derive(expressions | {f"c{wrong}": "length(nope)"})
    (found,) = [one for one in outcome.diagnostics if one.severity == "error"]
    assert (found.code, "unknown column `nope`" in found.message) == ("PT0403", True)
    assert len(bindings) <= 25


def test_expressions_read_the_columns_before_the_step() -> None:
    outcome = compile_derive({"a": "length(answer)", "b": "a + 1"})
    assert [one.message for one in outcome.diagnostics] == ["unknown column `a`"]


def test_a_table_is_created_once_for_several_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = CountingConnection(sql.database())
    monkeypatch.setattr(sql, "database", lambda: counting)
    columns = {f"wide{number}": "text" for number in range(50)}
    for number in range(5):
        sql.bind(f"SELECT wide{number} FROM rows", {"rows": columns})
    reordered = dict(reversed(columns.items()))
    assert list(sql.bind("SELECT * FROM rows", {"rows": reordered})) == list(reordered)
    assert sum("CREATE" in one for one in counting.statements) == 2


def test_a_source_checks_its_columns_with_few_queries() -> None:
    connection = CountingConnection(duckdb.connect(":memory:"))
    columns = {f"c{number}": "integer" for number in range(WIDTH)}
    listed = ", ".join(f"'1'::JSON AS {name}" for name in columns)
    connection.execute(f"CREATE TABLE input_rows AS SELECT {listed}")
    load_json_columns(connection, "input_rows", columns)
    check_columns_not_empty(connection, "source", columns)
    assert len(connection.statements) < 12


def test_the_first_value_that_does_not_fit_is_named() -> None:
    connection = duckdb.connect(":memory:")
    columns = {f"c{number}": "integer" for number in range(WIDTH)}
    values = [[*([1] * 700), "x", *([1] * (WIDTH - 701))] if row else [1] * WIDTH for row in range(3)]
    rows = ", ".join("(" + ", ".join(f"'{json.dumps(cell)}'::JSON" for cell in row) + ")" for row in values)
    connection.execute(f"CREATE TABLE input_rows AS SELECT * FROM (VALUES {rows}) t({', '.join(columns)})")
    with pytest.raises(StepError, match="row 2: the column `c700` is declared as integer"):
        load_json_columns(connection, "input_rows", columns)
