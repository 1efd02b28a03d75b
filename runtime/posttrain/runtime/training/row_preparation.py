"""Checks and converts the rows of a training stage, in batches and several processes, into mapped files."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posttrain.runtime.chat_prompts import (
    TEMPLATE_COLUMNS,
    TEMPLATE_KWARGS,
    TOOLS,
    ChatPrompt,
    read_template_columns,
)
from posttrain.runtime.errors import StepError
from posttrain.runtime.models.template_probe import check_rendered_parts, first_with_parts
from posttrain.runtime.prompts import check_rendered
from posttrain.runtime.step_context import StopRequest
from posttrain.runtime.training.row_examination import (
    CONVERSATIONS,
    TEMPLATE_VALUES,
    BatchFacts,
    Finding,
    examine_batch,
    raise_findings,
)
from posttrain.runtime.training.row_features import TURN_COLUMNS, dataset_features, rows_table
from posttrain.runtime.training.row_statistics import RowStatistics, add_statistics, row_statistics
from posttrain.runtime.training_rows.mapped_dataset import map_dataset
from posttrain.runtime.training_rows.parquet_rows import MappedRows
from posttrain.runtime.turn_order import check_turn_order
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import Method
from posttrain.spec.messages import parse_tools, template_messages

# The columns that methods read, in addition to those that a reward reads.
_METHOD_COLUMNS = ("prompt", "messages", "completion", "chosen", "rejected", "text", "label")
# The role of each column's text when it becomes a message.
_COLUMN_ROLES = {"prompt": "user", "completion": "assistant", "chosen": "assistant", "rejected": "assistant"}
# The names of the rows in errors.
TRAINING_NAME, HELD_OUT_NAME = "the data", "`evaluate.data`"
Row = dict[str, Any]


@dataclass(frozen=True)
class RowLook:
    """What a method asks about its rows, beyond the checks of all methods.

    `flags` says what any of some rows has. `check` also gets the number of the first of them, and raises
    StepError for a row that the method rejects. `key` is what both depend on besides the rows.
    """

    key: Any
    flags: Callable[[Sequence[Row]], Mapping[str, bool]]
    check: Callable[[Sequence[Row], int], None]


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How the rows of a stage become those of its trainer."""

    source: MappedRows
    method: Method
    # The column set of the method that the rows match.
    columns: Columns
    # The chat template of the tokenizer, and its arguments for all rows.
    template: Any
    template_kwargs: Mapping[str, Any]
    # Whether text becomes messages.
    chat: bool
    # Further columns of the trainer's dataset.
    more: Sequence[str] = ()
    # Each pair becomes two labeled completions.
    pairs_apart: bool = False
    keep_weights: bool = False
    look: RowLook | None = None

    def key(self) -> Any:
        return {
            "source": self.source.key,
            "method": [self.method.name, self.method.version, *sorted(self.columns.items())],
            "template": [self.template, dict(self.template_kwargs), self.chat],
            "columns": [self.names(), self.pairs_apart, self.keep_weights],
            "look": None if self.look is None else self.look.key,
        }

    def names(self) -> list[str]:
        """The columns of the trainer's dataset, with those for templates that may have no value."""
        stored = self.source.table.column_names
        own = ("prompt", "completion", "label") if self.pairs_apart else tuple(self.columns)
        tools = [TOOLS] if TOOLS in stored else []
        kwargs = [TEMPLATE_KWARGS] if self.template_kwargs or tools or TEMPLATE_KWARGS in stored else []
        more = [name for name in self.more if name in stored]
        return list(dict.fromkeys((*own, *tools, *kwargs, *more)))

    def chat_columns(self) -> list[str]:
        return list(_COLUMN_ROLES) if self.chat else []


@dataclass(frozen=True)
class PreparedRows:
    """The rows of a trainer, before tokenization, and what is known about all of them."""

    data: Any
    # What the files of the rows depend on.
    key: str
    cache: Path
    columns: Columns
    statistics: RowStatistics
    flags: Mapping[str, bool] = field(default_factory=dict[str, bool])
    # Messages and advice of the StepError of the method for its first rejected row.
    late_error: tuple[str, str] | None = None

    def __len__(self) -> int:
        return len(self.data)


def prepare_table(preparation: Preparation, cache: Path, stop: StopRequest | None = None) -> PreparedRows:
    """The checked and converted rows: from the cache, or by work on all rows."""
    source = preparation.source.table
    names = preparation.names()
    features = dataset_features(source, names, preparation.chat_columns(), weights=preparation.keep_weights)

    def write(start: int, stop: int) -> tuple[Any, BatchFacts]:
        rows, facts = _prepare_batch(preparation, start, stop)
        return rows_table(rows, features), facts

    def merge(batches: Sequence[BatchFacts]) -> Mapping[str, Any]:
        raise_findings(batches, preparation.columns)
        _check_parts(preparation, batches)
        late = next((batch.late_error for batch in batches if batch.late_error is not None), None)
        return {
            "statistics": add_statistics(batch.trained for batch in batches).as_json(),
            "rendered": _any(batch.rendered for batch in batches),
            "flags": _any(batch.flags for batch in batches),
            "late_error": late,
        }

    mapped = map_dataset(cache, preparation.key(), source, features, write, merge, stop)
    facts = mapped.facts
    empty = {
        name for name in TEMPLATE_COLUMNS if not facts["rendered"].get(name) and name not in preparation.more
    }
    return PreparedRows(
        data=mapped.data.select_columns([name for name in names if name not in empty]),
        key=mapped.key,
        cache=cache,
        columns=preparation.columns,
        statistics=RowStatistics(**facts["statistics"]),
        flags=facts["flags"],
        late_error=facts["late_error"] and tuple(facts["late_error"]),
    )


def _prepare_batch(preparation: Preparation, start: int, stop: int) -> tuple[list[Row], BatchFacts]:
    """The rows of the trainer from a batch, and what was found in it. No rows if a check fails."""
    first, rows = start + 1, preparation.source.read(start, stop)
    facts = examine_batch(
        rows, preparation.columns, preparation.method, template=preparation.template is not None, first=first
    )
    if facts.finding is not None:
        return [], facts
    facts.trained = _trained_statistics(preparation, rows, facts.stored)
    place = TEMPLATE_VALUES
    try:
        rows = read_template_columns(rows, preparation.template_kwargs, first)
        place = CONVERSATIONS
        rows = _as_conversations(preparation, rows, first, facts)
    except StepError as error:
        facts.finding = Finding(place=place, message=str(error), advice=error.advice)
        return [], facts
    facts.rendered = {name: any(row.get(name) for row in rows) for name in TEMPLATE_COLUMNS}
    if preparation.look is not None:
        facts.flags = preparation.look.flags(rows)
        try:
            preparation.look.check(rows, first)
        except StepError as error:
            facts.late_error = str(error), error.advice
    if not preparation.keep_weights:
        rows = [_without_weights(row) for row in rows]
    return (label_pairs(rows) if preparation.pairs_apart else rows), facts


def _trained_statistics(
    preparation: Preparation, rows: Sequence[Row], stored: RowStatistics
) -> RowStatistics:
    """The statistics of the rows of the trainer. Text counts as the messages that it becomes."""
    if preparation.pairs_apart:
        rows = label_pairs(rows)
    names = [name for name in preparation.names() if name in _METHOD_COLUMNS]
    if names == list(preparation.columns):
        return stored
    return row_statistics({name: [row[name] for row in rows] for name in names})


def _as_conversations(
    preparation: Preparation, rows: Sequence[Row], first: int, facts: BatchFacts
) -> list[Row]:
    if not preparation.chat:
        check_rendered([""] * len(rows), rows, first)
        return list(rows)
    found = [as_messages(row) for row in rows]
    talks = list(conversations(found, preparation.columns, first))
    check_turn_order((number, talk.messages) for number, talk in talks)
    facts.parts = first_with_parts(talks, preparation.template, learned=True)
    return found


def _check_parts(preparation: Preparation, batches: Sequence[BatchFacts]) -> None:
    """Check that the template renders all parts, in the first rows of all that have them."""
    found: dict[str, int] = {}
    for batch in batches:
        for part, number in batch.parts.items():
            found.setdefault(part, number)
    talks = [
        talk for number in sorted(set(found.values())) for talk in _row_conversations(preparation, number)
    ]
    if talks:
        check_rendered_parts(talks, preparation.template, learned=True)


def _row_conversations(preparation: Preparation, number: int) -> Iterator[tuple[int, ChatPrompt]]:
    rows = read_template_columns(
        preparation.source.read(number - 1, number), preparation.template_kwargs, number
    )
    return conversations([as_messages(row) for row in rows], preparation.columns, number)


def _any(flags: Iterable[Mapping[str, bool]]) -> dict[str, bool]:
    merged: dict[str, bool] = {}
    for one in flags:
        for name, value in one.items():
            merged[name] = merged.get(name, False) or value
    return merged


def conversations(
    rows: Sequence[Row], columns: Iterable[str], first: int = 1
) -> Iterator[tuple[int, ChatPrompt]]:
    """Yield every conversation that the chat template renders, with the number of its row."""
    names = [name for name in columns if name in TURN_COLUMNS and isinstance(rows[0][name], list)]
    answers = [name for name in names if name != "prompt"]
    for number, row in enumerate(rows, first):
        prompt = row["prompt"] if "prompt" in names else []
        for turns in [row[name] for name in answers] or [[]]:
            talk = template_messages([*prompt, *turns])
            yield number, ChatPrompt(talk, parse_tools(row.get(TOOLS)), row.get(TEMPLATE_KWARGS) or {})


def as_messages(row: Row) -> Row:
    """Convert text prompts and completions to messages of the user and the assistant."""
    changed = dict(row)
    for column, role in _COLUMN_ROLES.items():
        if isinstance(row.get(column), str):
            changed[column] = [{"role": role, "content": row[column]}]
    return changed


def label_pairs(rows: Sequence[Row]) -> list[Row]:
    """The two labeled completions of each pair, one after the other."""
    return [
        {
            **{name: row[name] for name in TEMPLATE_COLUMNS if name in row},
            "prompt": row["prompt"],
            "completion": row[column],
            "label": column == "chosen",
        }
        for row in rows
        for column in ("chosen", "rejected")
    ]


def _without_weights(row: Row) -> Row:
    """A row without the weights of turns, which chat templates do not get."""
    return {
        name: template_messages(value) if name in TURN_COLUMNS and isinstance(value, list) else value
        for name, value in row.items()
    }
