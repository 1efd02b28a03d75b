"""The value of an operand: a column, a node or a literal, with its type and range."""

from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.spec.column_types import Interval, Type
from posttrain.spec.record import record

BOOLEAN_RANGE = Interval(0.0, 1.0)


@record
class Value:
    lowered: Mapping[str, Any]
    type: Type
    range: Interval

    @property
    def node(self) -> str | None:
        """The node of this value, or None for a column or a literal."""
        return self.lowered.get("node")


Operands = Mapping[str, Value | list[Value]]


def literal_value(given: bool | int | float) -> Value:
    number = float(given)
    value = given if isinstance(given, bool) else number
    return Value(
        {"value": value}, "boolean" if isinstance(given, bool) else "number", Interval(number, number)
    )


def as_list(operand: Value | list[Value]) -> Sequence[Value]:
    return operand if isinstance(operand, list) else [operand]


def lower_operands(operands: Operands) -> dict[str, Any]:
    return {
        name: [item.lowered for item in value] if isinstance(value, list) else value.lowered
        for name, value in operands.items()
    }


def operand_ranges(operands: Operands) -> dict[str, list[Interval]]:
    return {name: [item.range for item in as_list(value)] for name, value in operands.items()}


def clamp_to_type(reach: Interval, type: Type) -> Interval:
    """Return the part of a range that the type can hold."""
    if type != "boolean":
        return reach
    return Interval(max(0.0, reach.low), min(1.0, reach.high))
