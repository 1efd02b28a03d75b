"""Base class of the parameters of a step, and how they are written into the plan.

Every field is written, with the key that the model declares. Fields declared with `omitted` are left out
when they are not set, so that the many steps without that feature do not carry its keys.
"""

from collections.abc import Mapping
from operator import not_
from typing import Any, Self, cast

from pydantic import Field
from pydantic_core import to_jsonable_python

from posttrain.spec.canonical_json import Json
from posttrain.spec.document import Document

# A number from a recipe. A plan keeps the difference between 1 and 1.0.
Number = int | float


class StepParams(Document):
    """Base of the parameters of every kind of step."""

    def dump(self) -> dict[str, Json]:
        """The parameters as plain values, as the plan holds them."""
        return cast(dict[str, Json], to_jsonable_python(self, by_alias=True))

    def with_fields(self, **fields: Any) -> Self:
        """A copy with other values. Unlike `model_copy` it validates them."""
        return type(self).model_validate({**dict(self), **fields})


def omitted() -> Any:
    """A field that the plan omits if it is None."""
    return Field(default=None, exclude_if=_is_none)


def omitted_if_empty(default: Mapping[str, Any] | bool) -> Any:
    """A field that the plan omits if it is empty or false."""
    return Field(default=default, exclude_if=not_)


def _is_none(value: Any) -> bool:
    return value is None
