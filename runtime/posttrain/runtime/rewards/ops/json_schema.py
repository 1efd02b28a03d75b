"""Whether a text is valid JSON under a JSON Schema."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.text_parsing.bounded_regex import LOST_REASON, TIMEOUT_REASON, StarvedError
from posttrain.runtime.rewards.text_parsing.json_extraction import (
    WHERE_DESCRIPTION,
    JsonNotFoundError,
    Where,
    read_json,
)
from posttrain.spec.extension import Operand, Params, RewardOp
from posttrain.spec.field_types import checked_by

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def check_schema(schema: dict[str, Any]) -> None:
    """Raise ValueError if this is not a valid JSON Schema."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for as kind_for

    try:
        kind_for(schema).check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"not a valid JSON Schema: {error.message}") from None
    if _searches_without_limit(schema):
        raise ValueError(
            "`unevaluatedProperties` cannot be combined with `patternProperties`; use `additionalProperties`"
        )
    for reference in _unresolved_references(schema):
        raise ValueError(f"unresolved reference `{reference}`: the schema has no such part")


def _searches_without_limit(part: Any) -> bool:
    """Whether the library searches property names in a place that cannot be replaced."""
    from json import dumps

    text = dumps(part)
    return '"unevaluatedProperties":' in text and '"patternProperties":' in text


def _unresolved_references(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the references that cannot be resolved within the schema."""
    from jsonschema.validators import validator_for as kind_for
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import specification_with

    kind = specification_with(kind_for(schema).META_SCHEMA["$schema"])
    whole = kind.create_resource(schema)
    base = whole.id() or ""
    waiting = [(whole, REGISTRY.with_resource(base, whole).resolver(base))]
    while waiting:
        part, resolver = waiting.pop()
        contents: Any = part.contents if isinstance(part.contents, dict) else {}
        for name in REFERENCES:
            try:
                if isinstance(reference := contents.get(name), str):
                    resolver.lookup(reference)
            except Unresolvable:
                yield contents[name]
        waiting += [(inner, resolver.in_subresource(inner)) for inner in part.subresources()]


class JsonSchema(Params):
    schema_: Annotated[dict[str, Any], checked_by(check_schema)] = Field(
        alias="schema",
        description="The JSON Schema. References must stay within it.",
    )
    where: Where = Field(default="whole", description=WHERE_DESCRIPTION)


EXTENSION = RewardOp(
    name="json_schema",
    summary="True if the text is JSON, or contains JSON (see `where`), that is valid under a schema.",
    params=JsonSchema,
    operands={"of": Operand(type="text", description="The text that is JSON or contains it.")},
    yields="boolean",
    stack=("jsonschema", "regex"),
)


def run(params: JsonSchema, operands: Operands, batch: Batch) -> OpResult:
    validator = validator_for(params.schema_)
    values: list[bool | None] = []
    reasons: list[str | None] = []
    for text in operands["of"]:
        try:
            reason = text_violation(text, params.where, validator)
            values.append(reason is None)
        except StarvedError:
            reason = LOST_REASON
            values.append(None)
        reasons.append(reason)
    return OpResult(values=values, reasons=reasons)


def text_violation(text: str | None, where: Where, validator: Any) -> str | None:
    """Why the text is not valid, or None if it is."""
    if text is None:
        return "there is no text"
    try:
        value = read_json(text, where)
    except JsonNotFoundError as error:
        return str(error)
    return schema_violation(value, validator)


def schema_violation(value: Any, validator: Any) -> str | None:
    """Why a value is not valid under a schema, or None if it is."""
    from jsonschema.exceptions import best_match

    try:
        error = best_match(validator.iter_errors(value))
    except RecursionError:
        return "nested too deeply"
    except TimeoutError:
        return TIMEOUT_REASON
    return None if error is None else f"{error.json_path}: {error.message}"[:300]


def validator_for(schema: dict[str, Any]) -> Any:
    """A validator whose searches have a limit of CPU time."""
    from posttrain.runtime.rewards.text_parsing.bounded_schema import bounded_validator

    return bounded_validator(schema)
