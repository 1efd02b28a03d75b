"""Data op `conversations`: convert conversations with other keys and role names to messages."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import Field

from posttrain.runtime.data.row_tables import check_columns
from posttrain.runtime.data.tool_call_tags import listed_tools, read_tags
from posttrain.runtime.errors import StepError
from posttrain.runtime.message_columns import read_json_column, set_columns, stored_json
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import DataOp, Params
from posttrain.spec.field_types import Items, checked_by
from posttrain.spec.message_fields import ALIAS_FIELDS, MESSAGE_FIELDS, describe_field, is_empty
from posttrain.spec.messages import Message, parse_json, parse_message

# Turns with this role have JSON of calls as their text. They become turns of the assistant.
_CALL_ROLE = "function_call"
_ROLE_NAMES = {
    "system": "system",
    "developer": "developer",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "function_call": _CALL_ROLE,
    "observation": "tool",
    "function_response": "tool",
    "tool": "tool",
}
# The fields of a turn that are read under their own names.
_FIELDS = tuple(name for name in (*MESSAGE_FIELDS, *ALIAS_FIELDS) if name not in ("role", "content"))
_KEY_ADVICE = "filter out such rows, or add the key to `ignored_keys` if the model does not need it"
_CALL_ADVICE = "correct the call, or filter out such rows"


def _check_field_names(names: dict[str, str]) -> None:
    for key, name in names.items():
        if name not in _FIELDS:
            known = ", ".join(_FIELDS)
            raise ValueError(f"`{name}` is not a field of messages (key `{key}`); they are {known}")


class Conversations(Params):
    column: str = Field(default="conversations", description="The column of turns, as JSON.")
    output_column: str = Field(
        default="messages", min_length=1, description="The output column of the messages."
    )
    role_key: str = Field(default="from", description="The key of the role in a turn.")
    content_key: str = Field(default="value", description="The key of the content in a turn.")
    role_names: dict[str, str] = Field(
        default=_ROLE_NAMES,
        min_length=1,
        description="A mapping from the role names in the data to the roles of messages. The text of turns"
        " that are mapped to `function_call` is JSON of tool calls: one {name, arguments}, or a list.",
    )
    field_names: Annotated[dict[str, str], checked_by(_check_field_names)] = Field(
        default_factory=dict[str, str],
        description="A mapping from other keys of turns to fields of messages, such as"
        " {reasoning: reasoning_content}. `tool_calls`, `tool_call_id`, `name`, `reasoning_content`, `train`"
        " and `weight` need no mapping.",
    )
    ignored_keys: Items[str] = Field(
        default=(),
        description="Keys of turns that the messages do not need, such as ids. Any other key with a value is"
        " an error, because the messages would not have it.",
    )
    tagged_calls: bool = Field(
        default=False,
        description="Parse the tags of Hermes in the text: <tool_call> becomes a tool call, <tool_response> a"
        " turn of a tool, and <tools> in the system turn the column `tools_column`. The system turn that"
        " lists the tools is removed, because the chat template lists them again.",
    )
    tools_column: str = Field(
        default="tools", min_length=1, description="The output column of the tools, with `tagged_calls`."
    )


def columns(params: Conversations, before: Columns) -> Columns:
    check_columns(before, [params.column], "any", "list<any>", "messages")
    after = {**before, params.output_column: "messages"}
    if not params.tagged_calls:
        return after
    if params.tools_column in after:
        raise ValueError(f"a column `{params.tools_column}` already exists; rename it, or set `tools_column`")
    return {**after, params.tools_column: "text"}


def check_known_fields(params: Conversations, fields: Mapping[str, Mapping[str, str]]) -> None:
    """Raise ValueError for keys of turns that the messages would not have."""
    known = (params.role_key, params.content_key, *params.ignored_keys, *params.field_names, *_FIELDS)
    for name, place in fields.get(params.column, {}).items():
        if name not in known:
            lost = f"the key {describe_field(name)}, which would be lost"
            raise ValueError(f"{place}: a turn of `{params.column}` has {lost}; {_KEY_ADVICE}")


EXTENSION = DataOp(
    name="conversations",
    summary="Convert conversations with other keys and role names to messages.",
    params=Conversations,
    columns=columns,
    check_turn_fields=check_known_fields,
    exact=True,
    version=3,
    stack=("duckdb",),
    row_by_row=True,
)


def run(params: Conversations, connection: Any, seed: int) -> None:
    """Change the table `rows`."""
    messages: list[str | None] = []
    tools: list[str | None] = []
    for row, turns in read_json_column(connection, "rows", params.column, "__row"):
        found, listed = (None, None) if turns is None else _convert_row(params, row, turns)
        messages.append(None if found is None else stored_json(found))
        tools.append(None if listed is None else json.dumps(listed, ensure_ascii=False))
    tagged = {params.tools_column: (tools, "text")} if params.tagged_calls else {}
    set_columns(connection, "rows", {params.output_column: (messages, "messages"), **tagged})


def _convert_row(
    params: Conversations, row: int, turns: Any
) -> tuple[list[Message], list[dict[str, Any]] | None]:
    """The messages of a row, and the tools that its system turn lists."""
    messages: list[Message] = []
    tools: list[dict[str, Any]] | None = None
    for number, turn in enumerate(_turns(params, row, turns), 1):
        message = _rename_keys(params, row, turn)
        try:
            if message["role"] == _CALL_ROLE:
                message = _call_message(message)
            parsed = parse_message(message)
            listed = _listed_tools(params, parsed)
            if listed is None:
                messages += read_tags(parsed) if params.tagged_calls else [parsed]
            elif tools is None:
                tools = listed
            else:
                raise ValueError("a second turn lists tools")
        except ValueError as error:
            message = f"row {row}, `{params.column}`, turn {number}: {error}"
            raise StepError(message, _CALL_ADVICE) from None
    return messages, tools


def _turns(params: Conversations, row: int, turns: Any) -> list[Any]:
    if not isinstance(turns, list):
        raise StepError(f"row {row}: `{params.column}` is not a list of turns", "correct the row")
    # A list of JSON values is a list of their texts.
    found = cast(list[Any], turns)
    return [json.loads(turn) if isinstance(turn, str) and turn.startswith("{") else turn for turn in found]


def _rename_keys(params: Conversations, row: int, value: Any) -> Message:
    """The turn with the keys and the role of messages. Raises StepError for keys that would be lost."""
    turn = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    content = turn.get(params.content_key)
    has_calls = any(not is_empty(turn.get(name)) for name in ("tool_calls", "function_call"))
    wordless = not isinstance(content, str) and not (content is None and has_calls)
    if turn.get(params.role_key) not in params.role_names or wordless:
        raise StepError(
            f"row {row}: cannot convert a turn of `{params.column}`: {_shown(value)}",
            f"each turn needs text for `{params.content_key}`, and a `{params.role_key}` that is one of"
            f" {', '.join(params.role_names)}; set `role_names`, `role_key` or `content_key`",
        )
    message: Message = {"role": params.role_names[turn[params.role_key]], "content": content}
    for key, item in turn.items():
        if key in (params.role_key, params.content_key, *params.ignored_keys) or is_empty(item):
            continue
        name = params.field_names.get(key, key)
        if name not in _FIELDS or name in message:
            lost = f"the field {describe_field(key)}, which would be lost"
            raise StepError(f"row {row}: a turn of `{params.column}` has {lost}", _KEY_ADVICE)
        message[name] = item
    return message


def _call_message(message: Message) -> Message:
    """A turn of the assistant, from a turn whose text is JSON of calls."""
    found = parse_json(message["content"] or "")
    calls = cast(list[Any], found) if isinstance(found, list) else [found]
    others = {name: value for name, value in message.items() if name not in ("role", "content")}
    return {**others, "role": "assistant", "tool_calls": calls}


def _listed_tools(params: Conversations, message: Message) -> list[dict[str, Any]] | None:
    if not params.tagged_calls or message["role"] not in ("system", "developer"):
        return None
    return listed_tools(message["content"])


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:120]
