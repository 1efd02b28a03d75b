"""Whether a completion calls a tool as it should."""

import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic import Field, field_validator

from posttrain.runtime.rewards.batch import Batch, Operands, Reasoned
from posttrain.runtime.rewards.json_schema import check_schema, misfit, validator_for
from posttrain.runtime.rewards.json_text import read_json
from posttrain.spec.extension import Operand, Params, RewardOp


class ToolCall(Params):
    tools: dict[str, dict[str, Any]] = Field(
        default={}, description="The tools that may be called, each with the JSON Schema of its arguments."
    )
    open: str = Field(default="<tool_call>", description="The tag before a call; empty when there is none.")
    close: str = Field(default="</tool_call>", description="The tag after it.")

    @field_validator("tools")
    @classmethod
    def _are_schemas(cls, tools: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for schema in tools.values():
            check_schema(schema)
        return tools


EXTENSION = RewardOp(
    name="tool_call",
    summary="True when every call in the text is JSON with `name` and `arguments` that the tool takes, and"
    " there is one; with `to`, when the calls are those, in that order.",
    params=ToolCall,
    operands={"of": Operand(type="text"), "to": Operand(type="text", required=False)},
    yields="boolean",
    stack=("jsonschema",),
)
Call = dict[str, Any]


class BadCall(ValueError):
    """A call that is not written as one, or that its tool does not take."""


def run(params: ToolCall, operands: Operands, batch: Batch) -> Reasoned:
    validators = {name: validator_for(schema) for name, schema in params.tools.items()}
    wanted = operands.get("to")
    values: list[bool | None] = []
    reasons: list[str | None] = []
    for row, text in enumerate(operands["of"]):
        value, reason = _verdict(text, wanted[row] if wanted else "", wanted is not None, params, validators)
        values.append(value)
        reasons.append(reason)
    return Reasoned(values=values, reasons=reasons)


def _verdict(
    text: str | None, to: str | None, compared: bool, params: ToolCall, validators: Mapping[str, Any]
) -> tuple[bool | None, str | None]:
    expected: list[Call] = []
    if compared:
        try:
            expected = listed(read_json(to or "", "whole"))
        except ValueError as error:
            return None, f"the expected call cannot be read: {error}"
    try:
        found = calls(text or "", params)
        for call in found:
            _check(call, params, validators)
    except ValueError as error:
        return False, str(error)
    if compared and found != expected:
        return False, f"called {_shown(found)}, not {_shown(expected)}"
    return True, None


def calls(text: str, params: ToolCall) -> list[Call]:
    """The calls in a text, at least one. ValueError says what is wrong with them."""
    if not params.open:
        return listed(read_json(text, "first"))
    found: list[Call] = []
    pieces = text.split(params.open)[1:]
    for piece in pieces:
        body, close, _ = piece.partition(params.close)
        if not close:
            raise BadCall("a call is not closed")
        found += listed(read_json(body, "whole"))
    if not found:
        raise BadCall("no tool is called")
    return found


def listed(value: Any) -> list[Call]:
    """One call or several, each with its name and its arguments as an object."""
    items = cast(list[Any], value) if isinstance(value, list) else [value]
    return [_call(item) for item in items]


def _call(item: Any) -> Call:
    if not isinstance(item, dict):
        raise BadCall("a call is a JSON object with `name` and `arguments`")
    given = cast(dict[str, Any], item)
    given = given["function"] if isinstance(given.get("function"), dict) else given
    name, arguments = given.get("name"), given.get("arguments", {})
    if isinstance(arguments, str):  # as OpenAI writes them
        arguments = read_json(arguments, "whole")
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise BadCall("a call is a JSON object with `name` and `arguments`")
    return {"name": name, "arguments": cast(dict[str, Any], arguments)}


def _check(call: Call, params: ToolCall, validators: Mapping[str, Any]) -> None:
    if not params.tools:
        return
    if call["name"] not in validators:
        raise BadCall(f"there is no tool `{call['name']}`")
    fault = misfit(call["arguments"], validators[call["name"]])
    if fault is not None:
        raise BadCall(f"`{call['name']}` does not take these arguments: {fault}")


def _shown(found: list[Call]) -> str:
    return json.dumps(found, ensure_ascii=False)[:200]
