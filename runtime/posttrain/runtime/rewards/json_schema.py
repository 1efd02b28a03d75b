"""Whether a text is JSON of a given shape."""

from typing import Any

from pydantic import Field, field_validator

from posttrain.runtime.rewards.batch import Batch, Operands, Reasoned
from posttrain.runtime.rewards.json_text import WHERE, NoJson, Where, read_json
from posttrain.spec.extension import Operand, Params, RewardOp


class JsonSchema(Params):
    schema_: dict[str, Any] = Field(
        alias="schema", description="A JSON Schema; it may refer to its own parts, and to nothing outside."
    )
    where: Where = Field(default="whole", description=WHERE)

    @field_validator("schema_")
    @classmethod
    def _is_schema(cls, schema: dict[str, Any]) -> dict[str, Any]:
        check_schema(schema)
        return schema


EXTENSION = RewardOp(
    name="json_schema",
    summary="True when the text is, or holds, JSON that a schema admits.",
    params=JsonSchema,
    operands={"of": Operand(type="text")},
    yields="boolean",
    stack=("jsonschema",),
)


def run(params: JsonSchema, operands: Operands, batch: Batch) -> Reasoned:
    validator = validator_for(params.schema_)
    reasons = [fault(text, params.where, validator) for text in operands["of"]]
    return Reasoned(values=[reason is None for reason in reasons], reasons=reasons)


def fault(text: str | None, where: Where, validator: Any) -> str | None:
    """Why the text does not fit; None when it does."""
    if text is None:
        return "there is no text"
    try:
        value = read_json(text, where)
    except NoJson as error:
        return str(error)
    return misfit(value, validator)


def misfit(value: Any, validator: Any) -> str | None:
    """What is wrong with a value by a schema."""
    from jsonschema.exceptions import best_match

    try:
        error = best_match(validator.iter_errors(value))
    except RecursionError:
        return "nested too deep"
    return None if error is None else f"{error.json_path}: {error.message}"[:300]


def check_schema(schema: dict[str, Any]) -> None:
    """ValueError when it is no JSON Schema."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for as kind_for

    try:
        kind_for(schema).check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"this is no JSON Schema: {error.message}") from None


def validator_for(schema: dict[str, Any]) -> Any:
    from jsonschema.validators import validator_for as kind_for
    from referencing import Registry

    return kind_for(schema)(schema, registry=Registry())
