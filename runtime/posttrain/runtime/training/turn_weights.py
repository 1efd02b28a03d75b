"""Labels for turns of the assistant that the loss skips (`train: false`, `weight: 0`).

The chat template marks the text of the assistant's turns. Each marked text belongs to one turn, in order, so
the tokens of a turn without a loss are known. TRL's trainers take rows with labels as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime.chat_prompts import TEMPLATE_KWARGS, TOOLS
from posttrain.runtime.errors import StepError
from posttrain.runtime.prompt_tokenization import common_prefix
from posttrain.spec.messages import Message, template_messages

_IGNORE_INDEX = -100  # the label of a token that the loss ignores
_LEARNED_COLUMNS = ("messages", "completion")
Row = Mapping[str, Any]


def has_weights(rows: Sequence[Row]) -> bool:
    """Whether a turn that the model learns has another weight than 1."""
    return any(
        turn.get("weight", 1) != 1 for row in rows for name in _LEARNED_COLUMNS for turn in _turns(row, name)
    )


def check_weights(rows: Sequence[Row], *, loss_on_all: bool, first: int = 1) -> None:
    """Raise StepError for the first turn with a weight that the loss cannot have.

    `first` is the number of the first row.
    """
    for number, row in enumerate(rows, first):
        learned = [turn for name in _LEARNED_COLUMNS for turn in _turns(row, name)]
        for turn in learned:
            weight, role = turn.get("weight"), turn["role"]
            if weight is not None and weight not in (0, 1):
                raise StepError(
                    f"row {number}: a turn of `{role}` has the weight {weight:g}, but the loss of sft"
                    " counts a turn either fully or not at all",
                    "set weights to 0 or 1 in the dataset's steps",
                )
            if role != "assistant" and weight is not None and bool(weight) != loss_on_all:
                covered = "covers every turn" if loss_on_all else "covers the turns of the assistant only"
                if weight == 0 and not loss_on_all:
                    continue
                raise StepError(
                    f"row {number}: a turn of `{role}` has the weight {weight:g}, but the loss {covered}",
                    "remove the weight; only turns of the assistant can be included or excluded one by one",
                )
        if learned and all(turn.get("weight") == 0 for turn in learned if turn["role"] == "assistant"):
            raise StepError(
                f"row {number}: no turn of the assistant has a loss",
                "filter out such rows, or set a weight to 1",
            )


def encode_row(row: Row, tokenizer: Any, template: str | None, loss_on_all: bool) -> dict[str, list[int]]:
    """The token ids and labels of a row. The labels of turns with a weight of 0 are ignored."""
    prompt: list[Message] = list(row.get("prompt") or ())
    turns = [*prompt, *row.get("messages", ()), *row.get("completion", ())]
    arguments = {"chat_template": template, "tools": row.get(TOOLS), **(row.get(TEMPLATE_KWARGS) or {})}
    ids, owners = encode_turns(turns, tokenizer, **arguments)
    start, learned = 0, turns
    if prompt and not loss_on_all:
        before = tokenizer.apply_chat_template(
            template_messages(prompt), add_generation_prompt=True, return_dict=True, **arguments
        )
        start = common_prefix(before["input_ids"], ids)
        # Templates can render an answer of the prompt differently once a question of the completion follows.
        learned = [*({**turn, "weight": 0} for turn in prompt), *turns[len(prompt) :]]
    labels = [
        token if place >= start and _has_loss(owner, learned, loss_on_all) else _IGNORE_INDEX
        for place, (token, owner) in enumerate(zip(ids, owners, strict=True))
    ]
    return {"input_ids": ids, "labels": labels}


def encode_turns(
    turns: Sequence[Message], tokenizer: Any, *, chat_template: str | None, tools: Any, **template_kwargs: Any
) -> tuple[list[int], list[int | None]]:
    """The token ids of a conversation, and for each the index of the assistant's turn that it belongs to."""
    from transformers.utils.chat_template_utils import render_jinja_template

    template = tokenizer.get_chat_template(chat_template, tools)
    found: Any = render_jinja_template(
        conversations=[template_messages(turns)],
        tools=tools,
        chat_template=template,
        return_assistant_tokens_mask=True,
        **{**tokenizer.special_tokens_map, **template_kwargs},
    )
    rendered, spans = found
    own = [place for place, turn in enumerate(turns) if turn["role"] == "assistant"]
    if len(spans[0]) != len(own):
        raise StepError(
            f"the chat template marks {len(spans[0])} texts for {len(own)} turns of the assistant, so the"
            " tokens of each turn are not known",
            "put {% generation %} and {% endgeneration %} once around the text of each turn of the assistant,"
            " or train on `messages` without weights of turns",
        )
    encoded = tokenizer(rendered[0], add_special_tokens=False)
    ids: list[int] = encoded["input_ids"]
    owners: list[int | None] = [None] * len(ids)
    for owner, (start, end) in zip(own, spans[0], strict=True):
        first, last = encoded.char_to_token(0, start), encoded.char_to_token(0, end - 1)
        if start < end and first is not None:
            stop = len(ids) if last is None else last + 1
            owners[first:stop] = [owner] * (stop - first)
    return ids, owners


def _has_loss(owner: int | None, turns: Sequence[Message], loss_on_all: bool) -> bool:
    return loss_on_all if owner is None else turns[owner].get("weight") != 0


def _turns(row: Row, name: str) -> Sequence[Message]:
    value = row.get(name)
    return value if isinstance(value, list) else ()
