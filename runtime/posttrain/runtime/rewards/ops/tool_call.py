"""Whether a completion calls tools correctly."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.ops.json_schema import check_schema, schema_violation, validator_for
from posttrain.runtime.rewards.text_parsing.bounded_regex import LOST_REASON, StarvedError
from posttrain.runtime.rewards.text_parsing.json_extraction import read_json
from posttrain.runtime.rewards.text_parsing.tool_call_formats import (
    Call,
    Format,
    InvalidToolCallError,
    normalize_calls,
    parse_calls,
)
from posttrain.spec.extension import Operand, Params, RewardOp
from posttrain.spec.field_types import checked_by


class ToolCall(Params):
    tools: Annotated[
        dict[str, dict[str, Any]],
        checked_by(lambda tools: [check_schema(schema) for schema in tools.values()]),
    ] = Field(
        default={},
        description="The allowed tools, each with the JSON Schema of its arguments. By default, any tool.",
    )
    format: Format = Field(
        default="tags",
        description="The notation of calls: JSON between `tags`, bare `json`, the notation of a model family,"
        " `pythonic` function calls, or `any` of these, recognized by its markers.",
    )
    open: str = Field(default="<tool_call>", description="The tag before a call. Empty for no tags.")
    close: str = Field(default="</tool_call>", description="The tag after a call.")


EXTENSION = RewardOp(
    name="tool_call",
    summary="True if the text calls at least one tool and all its calls are valid: known tools, with"
    " arguments that match their schemas. With `to`, the calls must also equal the expected ones, in order."
    " Abstains if the expected calls cannot be parsed.",
    params=ToolCall,
    operands={
        "of": Operand(type="text", description="The text to search."),
        "to": Operand(type="text", required=False, description="The expected calls, as JSON."),
    },
    yields="boolean",
    stack=("jsonschema", "regex"),
)


def run(params: ToolCall, operands: Operands, batch: Batch) -> OpResult:
    validators = {name: validator_for(schema) for name, schema in params.tools.items()}
    expected = operands.get("to")
    values: list[bool | None] = []
    reasons: list[str | None] = []
    for row, text in enumerate(operands["of"]):
        to = expected[row] if expected else ""
        try:
            value, reason = _judge_text(text, to, expected is not None, params, validators)
        except StarvedError:
            value, reason = None, LOST_REASON
        values.append(value)
        reasons.append(reason)
    return OpResult(values=values, reasons=reasons)


def _judge_text(
    text: str | None, to: str | None, compared: bool, params: ToolCall, validators: Mapping[str, Any]
) -> tuple[bool | None, str | None]:
    expected: list[Call] = []
    if compared:
        try:
            expected = normalize_calls(read_json(to or "", "whole"))
        except ValueError as error:
            return None, f"the expected call cannot be parsed: {error}"
    try:
        calls = extract_calls(text or "", params)
        for call in calls:
            _check_call(call, params, validators)
    except ValueError as error:
        return False, str(error)
    if compared and calls != expected:
        return False, f"called {_format_calls(calls)}, not {_format_calls(expected)}"
    return True, None


def extract_calls(text: str, params: ToolCall) -> list[Call]:
    """The calls in a text, at least one. Raises ValueError if there are none or they are malformed."""
    notation = params.format if params.open else "json" if params.format == "tags" else params.format
    calls = parse_calls(text, notation, params.open, params.close)
    if not calls:
        raise InvalidToolCallError("there is no tool call")
    return calls


def _check_call(call: Call, params: ToolCall, validators: Mapping[str, Any]) -> None:
    if not params.tools:
        return
    if call["name"] not in validators:
        raise InvalidToolCallError(f"unknown tool `{call['name']}`")
    violation = schema_violation(call["arguments"], validators[call["name"]])
    if violation is not None:
        raise InvalidToolCallError(f"invalid arguments for `{call['name']}`: {violation}")


def _format_calls(calls: list[Call]) -> str:
    return json.dumps(calls, ensure_ascii=False)[:200]
