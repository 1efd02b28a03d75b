"""What a turn does in an environment that is acted in by tools."""

from collections.abc import Sequence

from posttrain.runtime.environments.environment_protocol import Action
from posttrain.runtime.rewards.ops.tool_call import ToolCall, extract_calls

_TOOL_CALL_PARAMS = ToolCall()


def parse_actions(text: str) -> Sequence[Action]:
    """The calls of a turn; a turn without one is an action itself. ValueError says what is wrong."""
    return extract_calls(text, _TOOL_CALL_PARAMS) if _TOOL_CALL_PARAMS.open in text else [text]
