"""Reads the operands of a reward op, each as one or several expressions."""

from collections.abc import Callable
from typing import Any, cast

from posttrain.compiler.rewards import reward_codes
from posttrain.compiler.rewards.op_arguments import OpArguments
from posttrain.compiler.rewards.operand_values import Value
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.column_types import Type
from posttrain.spec.extension import Operand, RewardOp
from posttrain.spec.record import record


@record
class OperandReader:
    """Reads operands with two callbacks of the graph builder: one reads an expression, one reports an
    error."""

    build_expression: Callable[[Any, KeyPath, str, Type], Value | None]
    fail: Callable[..., None]

    def read(self, op: RewardOp, body: OpArguments, id: str) -> dict[str, Value | list[Value]] | None:
        found: dict[str, Value | list[Value]] = {}
        good = True
        for field, operand in op.operands.items():
            if field not in body.written:
                good = self._read_default(field, operand, body, found) and good
            elif operand.fields:
                good = self._read_rows(field, operand, body, id, found) and good
            elif operand.named:
                good = self._read_named(field, operand, body, id, found) and good
            else:
                value = self._read_operand(
                    body.written[field], operand, body.operand_path(field), f"{id}.{field}"
                )
                good = good and value is not None
                if value is not None:
                    found[field] = value
        return found if good else None

    def _read_default(
        self, field: str, operand: Operand, body: OpArguments, found: dict[str, Value | list[Value]]
    ) -> bool:
        if operand.required:
            if field not in body.intended:  # a misspelled operand was already reported
                self.fail(reward_codes.BAD_NODE, body.path, f"missing operand `{field}`")
            return False
        if operand.default is not None:
            value = self.build_expression(operand.default, body.path, field, operand.type)
            assert value is not None, "the default of an operand has the type of the operand"
            found[field] = value
        return True

    def _read_operand(
        self, given: Any, operand: Operand, path: KeyPath, id: str
    ) -> Value | list[Value] | None:
        if not operand.many:
            return self.build_expression(given, path, id, operand.type)
        if not isinstance(given, list) or not given:
            suffix = f", for example [{given}]" if isinstance(given, str) else ""
            return self.fail(reward_codes.BAD_NODE, path, f"expected a list of nodes{suffix}")
        items = cast(list[Any], given)
        values = [
            self.build_expression(item, (*path, index), f"{id}.{index}", operand.type)
            for index, item in enumerate(items)
        ]
        present = [value for value in values if value is not None]
        return present if len(present) == len(values) else None

    def _read_rows(
        self, field: str, operand: Operand, body: OpArguments, id: str, found: dict[str, Value | list[Value]]
    ) -> bool:
        """Read an operand that is a list of mappings with the same keys."""
        keys = list(operand.fields)
        form = "{" + ", ".join(f"{key}: ..." for key in keys) + "}"
        rows, path = body.written[field], body.operand_path(field)
        if not isinstance(rows, list) or not rows:
            return bool(self.fail(reward_codes.BAD_NODE, path, f"expected a list of {form}"))
        columns: dict[str, list[Value | None]] = {key: [] for key in keys}
        for index, row in enumerate(cast(list[Any], rows)):
            where = (*path, index)
            if not isinstance(row, dict) or set(cast(dict[str, Any], row)) != set(keys):
                return bool(self.fail(reward_codes.BAD_NODE, where, f"expected {form}"))
            for key, inner in operand.fields.items():
                given = cast(dict[str, Any], row)[key]
                value = self.build_expression(given, (*where, key), f"{id}.{field}.{index}.{key}", inner.type)
                columns[key].append(value)
        for key, values in columns.items():
            found[f"{field}.{key}"] = [value for value in values if value is not None]
        return not any(None in values for values in columns.values())

    def _read_named(
        self, field: str, operand: Operand, body: OpArguments, id: str, found: dict[str, Value | list[Value]]
    ) -> bool:
        """Read an operand that is a mapping from user-defined names to nodes."""
        given, path = body.written[field], body.operand_path(field)
        if not isinstance(given, dict) or not given:
            return bool(self.fail(reward_codes.BAD_NODE, path, "expected a mapping from names to nodes"))
        good = True
        for name, item in cast(dict[str, Any], given).items():
            value = self.build_expression(item, (*path, name), f"{id}.{field}.{name}", operand.type)
            good = good and value is not None
            if value is not None:
                found[f"{field}.{name}"] = value
        return good
