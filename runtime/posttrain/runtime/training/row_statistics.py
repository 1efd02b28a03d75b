"""Counts over the rows of a training stage, from which the checks and warnings about all rows follow.

Parts of the rows are counted in several processes, and added.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from posttrain.spec.messages import turn_words

# Columns with text that the model learns to generate, or to avoid.
TARGET_COLUMNS = ("messages", "completion", "chosen", "rejected")


@dataclass(frozen=True, kw_only=True)
class RowStatistics:
    rows: int = 0
    # By column: rows without any text, rows whose text starts with the prompt, and the roles of turns.
    blank: Mapping[str, int] = field(default_factory=dict[str, int])
    repeated_prompts: Mapping[str, int] = field(default_factory=dict[str, int])
    roles: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    # Conversations whose last turn is not the assistant's.
    unanswered: int = 0
    # Rows whose `chosen` equals `rejected`.
    equal_pairs: int = 0
    # Two different values of `label`, or the only one.
    labels: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def row_statistics(columns: Mapping[str, Sequence[Any]]) -> RowStatistics:
    """The statistics of rows, from the values of each column."""
    names = [name for name in ("prompt", *TARGET_COLUMNS) if name in columns]
    pairs = zip(columns.get("chosen", ()), columns.get("rejected", ()), strict=False)
    return RowStatistics(
        rows=len(next(iter(columns.values()))),
        blank={name: sum(map(_is_blank, columns[name])) for name in names},
        repeated_prompts={
            name: _count_repeated(columns["prompt"], columns[name])
            for name in ("completion", "chosen")
            if name in columns and "prompt" in columns
        },
        roles={name: sorted(turn_roles(columns[name])) for name in names},
        unanswered=sum(
            bool(turns) and turns[-1]["role"] != "assistant" for turns in columns.get("messages", ())
        ),
        equal_pairs=sum(chosen == rejected for chosen, rejected in pairs),
        labels=_first_two(str(label).lower() for label in columns.get("label", ())),
    )


def add_statistics(parts: Iterable[RowStatistics]) -> RowStatistics:
    """The statistics of all rows."""
    every = list(parts)
    return RowStatistics(
        rows=sum(one.rows for one in every),
        blank=_sums(one.blank for one in every),
        repeated_prompts=_sums(one.repeated_prompts for one in every),
        roles={
            name: sorted({role for one in every for role in one.roles.get(name, ())})
            for name in dict.fromkeys(name for one in every for name in one.roles)
        },
        unanswered=sum(one.unanswered for one in every),
        equal_pairs=sum(one.equal_pairs for one in every),
        labels=_first_two(label for one in every for label in one.labels),
    )


def turn_roles(values: Iterable[Any]) -> set[str]:
    """The roles of all turns of conversations."""
    return {turn["role"] for turns in values if isinstance(turns, list) for turn in turns}


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


def _first_two(labels: Iterable[str]) -> list[str]:
    return sorted(set(labels))[:2]


def _count_repeated(prompts: Sequence[Any], answers: Sequence[Any]) -> int:
    """The completions that start with their prompt, as in datasets for plain language modeling."""
    pairs = ((_joined_text(p), _joined_text(a)) for p, a in zip(prompts, answers, strict=True))
    return sum(bool(prompt) and words.startswith(prompt) for prompt, words in pairs)


def _joined_text(value: Any) -> str:
    return value if isinstance(value, str) else "".join(map(turn_words, value))


def _is_blank(value: Any) -> bool:
    """Whether a value has no text to train on: blank text, or only blank assistant turns."""
    if isinstance(value, str):
        return not value.strip()
    if not isinstance(value, list):
        return False
    own = [turn for turn in value if turn["role"] == "assistant"] or value
    return not any(turn_words(turn).strip() for turn in own)
