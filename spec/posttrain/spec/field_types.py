"""Types of plain values: names, pairs, scalars."""

from typing import Annotated

from posttrain.spec.field_limits import Limits

NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"


Name = Annotated[str, Limits(pattern=NAME_PATTERN)]


Pair = Annotated[list[str], Limits(min_length=2, max_length=2)]


Scalar = str | int | float | bool | None
