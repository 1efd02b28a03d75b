"""Reward nodes: a name, a literal, or one op with its operands and parameters.

Where a node of some type is wanted, only the ops that yield it are offered.
"""

from collections.abc import Mapping

from posttrain.compiler.schema.choices import EXACTLY_ONE, extensions, parameters
from posttrain.compiler.schema.models import Definitions, Schema, reference
from posttrain.compiler.schema.words import typed
from posttrain.spec.extension import Catalog, Operand, RewardOp
from posttrain.spec.types import SCALARS, Type, accepts

# The types of literals, and how JSON Schema calls them.
_LITERALS = {"number": "number", "boolean": "boolean"}
TYPE: Schema = {
    "anyOf": [
        {"type": "string", "enum": [*SCALARS, "messages", "any"]},
        {"type": "string", "pattern": "^list<.+>$", "description": "A list, such as list<text>."},
    ]
}


def node(type: Type) -> Schema:
    """A reference to the definition of a node of this type."""
    return reference("node." + type.replace("<", "-").replace(">", ""))


def node_definitions(catalog: Catalog) -> Definitions:
    """Every op as `reward.NAME`, and `node.TYPE` for each type that is wanted somewhere."""
    ops = {n: op for n, op in extensions("reward", catalog).items() if isinstance(op, RewardOp)}
    found: Definitions = {}
    wanted: dict[Type, None] = {"any": None, "number": None}
    for name, op in ops.items():
        found |= parameters("reward", op)
        found[f"reward.{name}"] = _body(op, found[f"reward.{name}"])
        wanted |= {type: None for operand in op.operands.values() for type in _types(operand)}
    for type in wanted:
        found[node(type)["$ref"].rpartition("/")[2]] = _node(type, ops)
    return found


def _node(type: Type, ops: Mapping[str, RewardOp]) -> Schema:
    literals = [json for literal, json in _LITERALS.items() if accepts(type, literal)]
    # An op that gives what its parameters say may give any type.
    fitting = {n: reference(f"reward.{n}") for n, op in ops.items() if op.typed or accepts(type, op.yields)}
    if accepts(type, "text"):
        fitting["text"] = {"type": "string", "description": "This text itself."}
    what = "node" if type == "any" else f"node that gives {typed(type)}"
    return {
        "type": ["string", *literals, "object"],
        "description": f"A {what}: the name of what is read or of another node, or one op.",
        "properties": fitting,
        **EXACTLY_ONE,
    }


def _body(op: RewardOp, params: Schema) -> Schema:
    """An op's operands and parameters together; or just the operand that a bare value stands for."""
    operands = {name: _operand(operand) for name, operand in op.operands.items()}
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


def _operand(operand: Operand) -> Schema:
    made = node(operand.type)
    if operand.fields:
        made = {"type": "array", "items": _row(operand.fields), "minItems": 1}
    elif operand.named:
        made = {"type": "object", "additionalProperties": made, "minProperties": 1}
    elif operand.many:
        made = {"type": "array", "items": made, "minItems": 1}
    if operand.description:
        made = {**made, "description": operand.description}
    return made if operand.default is None else {**made, "default": operand.default}


def _row(fields: Mapping[str, Operand]) -> Schema:
    return {
        "type": "object",
        "properties": {name: _operand(inner) for name, inner in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }


def _types(operand: Operand) -> list[Type]:
    """The types of the nodes that stand in an operand."""
    if operand.fields:
        return [type for inner in operand.fields.values() for type in _types(inner)]
    return [operand.type]
