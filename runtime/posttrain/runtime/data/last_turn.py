"""Conversations parted before their last turn, for methods that learn from a prompt and its answer."""

from typing import Any

from posttrain.compiler.data.sql import quote_identifier
from posttrain.runtime.data.row_tables import check_columns, replace_rows
from posttrain.runtime.errors import StepError
from posttrain.spec.column_types import Columns
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import DataOp, Params

_MIN_TURNS = 2  # a turn that is answered, and the answer


class LastTurn(Params):
    column: str = field(default="messages", description="The column of conversations, which goes.")
    prompt: str = field(
        default="prompt", min_length=1, description="The column that receives all turns but the last."
    )
    completion: str = field(
        default="completion", min_length=1, description="The column that receives the last, the assistant's."
    )

    def check(self) -> None:
        if self.prompt == self.completion:
            raise ValueError("`prompt` and `completion` are two columns")


def columns(params: LastTurn, before: Columns) -> Columns:
    check_columns(before, [params.column], "messages")
    kept = {name: type for name, type in before.items() if name != params.column}
    for name in (params.prompt, params.completion):
        if name in kept:
            raise ValueError(f"there is a column `{name}` already; rename it first")
    return {**kept, params.prompt: "messages", params.completion: "messages"}


EXTENSION = DataOp(
    name="last_turn",
    summary="Part conversations into a prompt and the assistant's last turn.",
    params=LastTurn,
    columns=columns,
    exact=True,
    stack=("duckdb",),
)


def run(params: LastTurn, connection: Any, seed: int) -> None:
    """Change the table `rows`."""
    turns = quote_identifier(params.column)
    bad = connection.execute(
        f"SELECT __row, len({turns}), {turns}[-1].role FROM rows WHERE {turns} IS NOT NULL AND"
        f" (len({turns}) < {_MIN_TURNS} OR {turns}[-1].role IS DISTINCT FROM 'assistant')"
        " ORDER BY __row LIMIT 1"
    ).fetchone()
    if bad is not None:
        ends = f"ends on a turn of {bad[2]}" if bad[1] >= _MIN_TURNS else f"has {bad[1]} turns"
        raise StepError(
            f"row {bad[0]}: `{params.column}` {ends}, so there is no answer to part from a prompt",
            f"keep the others: `where: len({params.column}) > 1 and {params.column}[-1].role = 'assistant'`",
        )
    replace_rows(
        connection,
        f"SELECT * EXCLUDE ({turns}), {turns}[:-2] AS {quote_identifier(params.prompt)},"
        f" {turns}[-1:] AS {quote_identifier(params.completion)} FROM rows",
    )
