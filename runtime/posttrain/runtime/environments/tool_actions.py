"""Parses the actions of a turn in an environment with tools."""

from collections.abc import Sequence

from posttrain.runtime.environments.environment_protocol import Action
from posttrain.runtime.rewards.ops.tool_call import ToolCall, extract_calls

_TOOL_CALL_PARAMS = ToolCall()


def calls_tools(text: str) -> bool:
    """Whether a turn calls tools, well-formed or not."""
    return _TOOL_CALL_PARAMS.open in text


def parse_actions(text: str) -> Sequence[Action]:
    """The tool calls of a turn, or its text if it has none. Raises ValueError if a call is malformed."""
    return extract_calls(text, _TOOL_CALL_PARAMS) if calls_tools(text) else [text]
