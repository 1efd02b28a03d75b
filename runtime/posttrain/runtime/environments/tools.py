"""What a turn does in an environment that is acted in by tools."""

from collections.abc import Sequence

from posttrain.runtime.environments.protocol import Action
from posttrain.runtime.rewards.tool_call import ToolCall, calls

_WRITTEN = ToolCall()


def actions_of(text: str) -> Sequence[Action]:
    """The calls of a turn; a turn without one is an action itself. ValueError says what is wrong."""
    return calls(text, _WRITTEN) if _WRITTEN.open in text else [text]
