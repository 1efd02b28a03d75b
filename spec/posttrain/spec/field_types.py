"""Types of fields: names, lists, pairs, scalars, and checks of values."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, Strict

T = TypeVar("T")
NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"


def checked_by(check: Callable[[Any], object]) -> AfterValidator:
    """A validator that keeps the value, and fails if `check` raises ValueError.

    The exception can have a path below the field (`path`) and the legal values (`legal`).
    """

    def validate(value: Any) -> Any:
        check(value)
        return value

    return AfterValidator(validate)


class AcceptSingle(BeforeValidator):
    """Accepts a bare scalar as a list of one."""


def _as_list(value: Any) -> Any:
    return (value,) if isinstance(value, str | int | float) else value


Name = Annotated[str, Field(pattern=NAME_PATTERN)]

# A YAML list. The declaration holds a tuple, because declarations are frozen.
Items = Annotated[tuple[T, ...], Strict(False)]
OneOrMore = Annotated[tuple[T, ...], Strict(False), AcceptSingle(_as_list)]
Pair = Annotated[tuple[T, T], Strict(False)]

Scalar = str | int | float | bool | None
