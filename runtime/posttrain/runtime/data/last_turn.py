"""Data op `last_turn`: split conversations into a prompt and the assistant's last turn."""

from typing import Any

from pydantic import Field

from posttrain.runtime.data.row_tables import check_columns, replace_rows
from posttrain.runtime.errors import StepError
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import DataOp, Params
from posttrain.spec.sql_types import quote_identifier

_MIN_TURNS = 2  # a prompt and its answer


class LastTurn(Params):
    column: str = Field(default="messages", description="The column of conversations. It is removed.")
    prompt: str = Field(
        default="prompt", min_length=1, description="The output column for all turns except the last."
    )
    completion: str = Field(
        default="completion",
        min_length=1,
        description="The output column for the last turn, which must be the assistant's.",
    )

    def check(self) -> None:
        if self.prompt == self.completion:
            raise ValueError("`prompt` and `completion` must be different columns")


def columns(params: LastTurn, before: Columns) -> Columns:
    check_columns(before, [params.column], "messages")
    others = {name: type for name, type in before.items() if name != params.column}
    for name in (params.prompt, params.completion):
        if name in others:
            raise ValueError(f"a column `{name}` already exists; rename it first")
    return {**others, params.prompt: "messages", params.completion: "messages"}


EXTENSION = DataOp(
    name="last_turn",
    summary="Split conversations into a prompt and the assistant's last turn.",
    params=LastTurn,
    columns=columns,
    exact=True,
    stack=("duckdb",),
    row_by_row=True,
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
        if bad[1] >= _MIN_TURNS:
            problem = f"ends with a turn of {bad[2]}, not of the assistant"
        else:
            problem = f"has {bad[1]} turn{'' if bad[1] == 1 else 's'}; a prompt and an answer need at least 2"
        raise StepError(
            f"row {bad[0]}: `{params.column}` {problem}",
            "filter out such rows:"
            f" `where: len({params.column}) > 1 and {params.column}[-1].role = 'assistant'`",
        )
    replace_rows(
        connection,
        f"SELECT * EXCLUDE ({turns}), {turns}[:-2] AS {quote_identifier(params.prompt)},"
        f" {turns}[-1:] AS {quote_identifier(params.completion)} FROM rows",
    )
