"""The token ids and labels of SFT, as TRL's trainer makes them, for batches of rows.

TRL passes over all rows five times, with one row at a time. Here a batch of rows is rendered, tokenized,
masked and truncated at once. `tests/runtime/training/test_sft_tokenization.py` compares both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from posttrain.runtime.chat_prompts import TEMPLATE_KWARGS, TOOLS
from posttrain.runtime.errors import StepError
from posttrain.runtime.prompt_tokenization import common_prefix
from posttrain.runtime.training.row_preparation import Row
from posttrain.runtime.training.turn_weights import encode_row
from posttrain.spec.messages import parse_tools

IGNORE_INDEX = -100  # the label of a token that the loss ignores
Lists = list[list[int]]


@dataclass(frozen=True, kw_only=True)
class SftEncoder:
    """Tokenizes rows, and labels the tokens that have a loss."""

    tokenizer: Any
    # The template that marks the assistant's tokens; None for that of the tokenizer.
    template: str | None
    # Which tokens have a loss: by turn, after the prompt, or in the marked texts of the assistant.
    by_turn: bool
    loss_on_all: bool
    completion_only: bool
    assistant_only: bool
    # None truncates no row, and drops none.
    max_length: int | None
    truncation_mode: str

    def key(self) -> Any:
        """All that the result depends on besides the rows and the tokenizer."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "tokenizer"}

    def encode(self, rows: Sequence[Row], first: int) -> tuple[Lists, Lists]:
        """The token ids and labels of the rows that have a loss."""
        if self.by_turn:
            ids, labels = self._encode_turns(rows)
        elif "text" in rows[0]:
            ids = self._text_ids([row["text"] for row in rows], ended=True)
            labels = ids
        elif isinstance(rows[0].get("completion"), str):
            ids, labels = self._encode_text_pairs(rows)
        else:
            ids, labels = self._encode_conversations(rows, first)
        if self.max_length is None:
            return ids, labels
        part = _kept_tokens(self.max_length, self.truncation_mode)
        cut = [(one[part], its[part]) for one, its in zip(ids, labels, strict=True)]
        learned = [(one, its) for one, its in cut if any(label != IGNORE_INDEX for label in its)]
        return [one for one, _ in learned], [its for _, its in learned]

    def _encode_turns(self, rows: Sequence[Row]) -> tuple[Lists, Lists]:
        read = [{**row, TOOLS: parse_tools(row.get(TOOLS))} for row in rows]
        encoded = [encode_row(row, self.tokenizer, self.template, self.loss_on_all) for row in read]
        return [row["input_ids"] for row in encoded], [row["labels"] for row in encoded]

    def _encode_text_pairs(self, rows: Sequence[Row]) -> tuple[Lists, Lists]:
        prompts = self._text_ids([row["prompt"] for row in rows])
        ids = self._text_ids(
            [row["prompt"] + _ended(row["completion"], self.tokenizer.eos_token) for row in rows]
        )
        return ids, self._completion_labels(prompts, ids)

    def _encode_conversations(self, rows: Sequence[Row], first: int) -> tuple[Lists, Lists]:
        if "messages" in rows[0]:
            prompts, talks = None, [row["messages"] for row in rows]
        else:
            before = self._render(rows, [row["prompt"] for row in rows], add_generation_prompt=True)
            prompts, talks = before["input_ids"], [row["prompt"] + row["completion"] for row in rows]
        found = self._render(rows, talks, return_assistant_tokens_mask=self.assistant_only)
        ids: Lists = found["input_ids"]
        labels = ids if prompts is None else self._completion_labels(prompts, ids)
        if not self.assistant_only:
            return ids, labels
        masks: Lists = found["assistant_masks"]
        for number, mask in enumerate(masks, first):
            if 1 not in mask:
                raise StepError(
                    f"row {number}: the chat template marks no token as the assistant's, so it has no loss",
                    "put {% generation %} and {% endgeneration %} around the text of every turn of the"
                    " assistant, or set `loss_on: all`",
                )
        return ids, [_masked(one, mask) for one, mask in zip(labels, masks, strict=True)]

    def _completion_labels(self, prompts: Lists, ids: Lists) -> Lists:
        """Labels from where prompt and whole diverge, which is not always after the prompt."""
        if not self.completion_only:
            return ids
        starts = [common_prefix(prompt, whole) for prompt, whole in zip(prompts, ids, strict=True)]
        return [[IGNORE_INDEX] * start + whole[start:] for start, whole in zip(starts, ids, strict=True)]

    def _text_ids(self, texts: Sequence[str], *, ended: bool = False) -> Lists:
        end = self.tokenizer.eos_token
        return self.tokenizer([_ended(text, end) if ended else text for text in texts])["input_ids"]

    def _render(self, rows: Sequence[Row], talks: Sequence[Any], **options: Any) -> Any:
        """The tokens of conversations. Those with tools or arguments of their own are rendered one by one."""
        apply: Any = self.tokenizer.apply_chat_template
        options = {"chat_template": self.template, "tokenize": True, "return_dict": True, **options}
        if TOOLS not in rows[0] and TEMPLATE_KWARGS not in rows[0]:
            return apply(list(talks), **options)
        found = [
            apply(talk, **options, tools=parse_tools(row.get(TOOLS)), **(row.get(TEMPLATE_KWARGS) or {}))
            for row, talk in zip(rows, talks, strict=True)
        ]
        return {name: [one[name] for one in found] for name in found[0]}


def _kept_tokens(limit: int, mode: str) -> slice:
    if mode not in ("keep_start", "keep_end"):
        raise StepError(f"`truncation_mode` is `{mode}`", "set it to keep_start or keep_end")
    return slice(None, limit) if mode == "keep_start" else slice(-limit, None)


def _ended(text: str, end: str) -> str:
    return text if text.endswith(end) else text + end


def _masked(labels: list[int], mask: Sequence[int]) -> list[int]:
    return [label if bit else IGNORE_INDEX for label, bit in zip(labels, mask, strict=True)]
