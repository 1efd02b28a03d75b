"""Whether a completion calls a tool as it should."""

import json
from collections.abc import Mapping
from typing import Any

from posttrain.runtime.rewards.engine.batch import Batch, Operands, OpResult
from posttrain.runtime.rewards.ops.json_schema import check_schema, schema_violation, validator_for
from posttrain.runtime.rewards.text_parsing.json_extraction import read_json
from posttrain.runtime.rewards.text_parsing.tool_call_formats import (
    Call,
    Format,
    InvalidToolCallError,
    normalize_calls,
    parse_calls,
)
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Operand, Params, RewardOp


class ToolCall(Params):
    tools: dict[str, dict[str, Any]] = field(
        default={},
        check=lambda tools: [check_schema(schema) for schema in tools.values()],
        description="The tools that may be called, each with the JSON Schema of its arguments.",
    )
    format: Format = field(
        default="tags",
        description="How a call is written: JSON between tags, JSON alone, with the marks of a family of"
        " models, as functions in Python's syntax, or in any of these ways, told by its marks.",
    )
    open: str = field(default="<tool_call>", description="The tag before a call; empty when there is none.")
    close: str = field(default="</tool_call>", description="The tag after it.")


EXTENSION = RewardOp(
    name="tool_call",
    summary="True when every call in the text has a name and arguments that the tool takes, and there is one;"
    " with `to`, when the calls are those, in that order.",
    params=ToolCall,
    operands={
        "of": Operand(type="text", description="The text in which calls are looked for."),
        "to": Operand(type="text", required=False, description="The calls that are wanted, as JSON."),
    },
    yields="boolean",
    stack=("jsonschema",),
)


def run(params: ToolCall, operands: Operands, batch: Batch) -> OpResult:
    validators = {name: validator_for(schema) for name, schema in params.tools.items()}
    wanted = operands.get("to")
    values: list[bool | None] = []
    reasons: list[str | None] = []
    for row, text in enumerate(operands["of"]):
        value, reason = _judge_text(
            text, wanted[row] if wanted else "", wanted is not None, params, validators
        )
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
            return None, f"the expected call cannot be read: {error}"
    try:
        found = extract_calls(text or "", params)
        for call in found:
            _check_call(call, params, validators)
    except ValueError as error:
        return False, str(error)
    if compared and found != expected:
        return False, f"called {_format_calls(found)}, not {_format_calls(expected)}"
    return True, None


def extract_calls(text: str, params: ToolCall) -> list[Call]:
    """The calls in a text, at least one. ValueError says what is wrong with them."""
    notation = params.format if params.open else "json" if params.format == "tags" else params.format
    found = parse_calls(text, notation, params.open, params.close)
    if not found:
        raise InvalidToolCallError("no tool is called")
    return found


def _check_call(call: Call, params: ToolCall, validators: Mapping[str, Any]) -> None:
    if not params.tools:
        return
    if call["name"] not in validators:
        raise InvalidToolCallError(f"there is no tool `{call['name']}`")
    fault = schema_violation(call["arguments"], validators[call["name"]])
    if fault is not None:
        raise InvalidToolCallError(f"`{call['name']}` does not take these arguments: {fault}")


def _format_calls(found: list[Call]) -> str:
    return json.dumps(found, ensure_ascii=False)[:200]
