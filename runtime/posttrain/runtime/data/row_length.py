"""Row lengths in characters or words, for the data ops that filter by length.

Lengths in tokens are not supported: data ops run without a model's tokenizer.
"""

from typing import Any, Literal

from pydantic import Field

from posttrain.runtime.data.row_tables import check_columns, text_expression
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import Params
from posttrain.spec.field_types import OneOrMore


class LengthParams(Params):
    columns: OneOrMore[str] = Field(min_length=1, description="The columns whose lengths are summed.")
    unit: Literal["characters", "words"] = Field(
        default="characters", description="The unit of length. Words are separated by white space."
    )


def check_length_columns(params: LengthParams, before: Columns) -> Columns:
    check_columns(before, params.columns, "text", "messages")
    return before


def length_expression(params: LengthParams, connection: Any) -> str:
    """An SQL expression for a row's length. A null counts as length 0."""
    types = {str(row[0]): str(row[1]) for row in connection.execute("DESCRIBE rows").fetchall()}
    return " + ".join(
        _column_length(text_expression(name, types[name]), params.unit) for name in params.columns
    )


def _column_length(text: str, unit: str) -> str:
    if unit == "characters":
        return f"coalesce(length({text}), 0)"
    words = f"len(regexp_extract_all({text}, '[^\\s]+'))"
    return f"coalesce({words}, 0)"
