"""Schemas of reward nodes: a name, a literal, or one op with its operands and parameters.

For a node of some type, editors offer only the ops that return this type.
"""

from collections.abc import Mapping

from posttrain.compiler.schema.schema_choices import EXACTLY_ONE, extensions_of_kind, parameter_definitions
from posttrain.compiler.schema.schema_declarations import Definitions, Schema, schema_ref
from posttrain.compiler.schema.schema_wording import describe_type
from posttrain.spec.column_types import SCALAR_TYPES, Type, is_assignable
from posttrain.spec.extension import Catalog, Operand, RewardOp

# The types of literals, and their names in JSON Schema.
_LITERAL_TYPES = {"number": "number", "boolean": "boolean"}
TYPE_SCHEMA: Schema = {
    "anyOf": [
        {"type": "string", "enum": [*SCALAR_TYPES, "messages", "any"]},
        {"type": "string", "pattern": "^list<.+>$", "description": "A list, such as list<text>."},
    ]
}


def node_ref(type: Type) -> Schema:
    """A reference to the definition of a node of this type."""
    return schema_ref("node." + type.replace("<", "-").replace(">", ""))


def node_definitions(catalog: Catalog) -> Definitions:
    """Every op as `reward.NAME`, and `node.TYPE` for each type of an operand."""
    ops = {n: op for n, op in extensions_of_kind("reward", catalog).items() if isinstance(op, RewardOp)}
    found: Definitions = {}
    types: dict[Type, None] = {"any": None, "number": None}
    for name, op in ops.items():
        found |= parameter_definitions("reward", op)
        found[f"reward.{name}"] = _op_schema(op, found[f"reward.{name}"])
        types |= {type: None for operand in op.operands.values() for type in _operand_types(operand)}
    for type in types:
        found[node_ref(type)["$ref"].rpartition("/")[2]] = _node_schema(type, ops)
    return found


def _node_schema(type: Type, ops: Mapping[str, RewardOp]) -> Schema:
    literals = [json for literal, json in _LITERAL_TYPES.items() if is_assignable(type, literal)]
    # An op whose parameters determine its type can return any type.
    fitting = {
        n: schema_ref(f"reward.{n}")
        for n, op in ops.items()
        if op.infer_type or is_assignable(type, op.yields)
    }
    if is_assignable(type, "text"):
        fitting["text"] = {"type": "string", "description": "A literal text."}
    what = "node" if type == "any" else f"node that returns {describe_type(type)}"
    return {
        "type": ["string", *literals, "object"],
        "description": f"A {what}: the name of an input or of another node, or one op.",
        "properties": fitting,
        **EXACTLY_ONE,
    }


def _op_schema(op: RewardOp, params: Schema) -> Schema:
    """An op's operands and parameters together, or only its shorthand operand."""
    operands = {name: _operand_schema(operand) for name, operand in op.operands.items()}
    required = [name for name, operand in op.operands.items() if operand.required]
    required += params.get("required", [])
    full: Schema = {
        **params,
        "properties": {**operands, **params.get("properties", {})},
        "required": required,
    }
    if op.shorthand not in operands or any(name != op.shorthand for name in required):
        return full
    return {"description": params["description"], "anyOf": [full, operands[op.shorthand]]}


def _operand_schema(operand: Operand) -> Schema:
    result = node_ref(operand.type)
    if operand.fields:
        result = {"type": "array", "items": _row_schema(operand.fields), "minItems": 1}
    elif operand.named:
        result = {"type": "object", "additionalProperties": result, "minProperties": 1}
    elif operand.many:
        result = {"type": "array", "items": result, "minItems": 1}
    if operand.description:
        result = {**result, "description": operand.description}
    return result if operand.default is None else {**result, "default": operand.default}


def _row_schema(fields: Mapping[str, Operand]) -> Schema:
    return {
        "type": "object",
        "properties": {name: _operand_schema(inner) for name, inner in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }


def _operand_types(operand: Operand) -> list[Type]:
    """The types of the nodes in an operand."""
    if operand.fields:
        return [type for inner in operand.fields.values() for type in _operand_types(inner)]
    return [operand.type]
