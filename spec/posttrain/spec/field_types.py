"""Types of fields: names, lists, pairs, scalars, and checks of values."""

from collections import deque
from collections.abc import Callable
from math import isfinite
from typing import Annotated, Any, TypeVar, cast

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


class NotFiniteError(ValueError):
    """A number inside a value is not finite. `path` leads to it."""

    def __init__(self, path: tuple[str | int, ...]) -> None:
        super().__init__("must be finite")
        self.path = path


def check_finite(value: Any) -> Any:
    """Reject numbers that JSON cannot hold: a plan would have null in their place."""
    waiting: deque[tuple[tuple[str | int, ...], Any]] = deque([((), value)])
    while waiting:
        path, part = waiting.popleft()
        if isinstance(part, float) and not isfinite(part):
            raise NotFiniteError(path)
        if isinstance(part, dict):
            waiting += (((*path, key), item) for key, item in cast(dict[str, Any], part).items())
        elif isinstance(part, list | tuple):
            waiting += (((*path, at), item) for at, item in enumerate(cast(list[Any], part)))
    return value


# A value of any type that a plan can hold.
JsonValue = Annotated[Any, AfterValidator(check_finite)]
Scalar = str | int | float | bool | None
