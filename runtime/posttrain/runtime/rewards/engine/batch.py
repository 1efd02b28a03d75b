"""The input and output types of reward ops, and the meaning of None.

An op's `run(params, operands, batch)` takes one column for each operand, with one value per row. It returns
a column, or an `OpResult` if it also has reasons or unknown rows.

None means that there is no value:

- A text is absent. This is a fact about the completion, so a test of the text is false.
- A number or a condition abstains. Everything that is computed from it abstains too.
- If an op cannot decide whether a text is absent (a pattern timed out, a call failed), the row is `unknown`,
  and every node that reads it abstains.

None is never treated as zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Column = list[Any]
Operands = dict[str, Any]
# The input column with the episodes. No data column has this name.
EPISODES = "environment:episode"
# The input column with the number of tokens of each completion; None if it is not known.
TOKENS = "completion:tokens"


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The rows of one call of an op."""

    count: int
    # Where each row is in the batch of the graph, if a node gets only some of its rows.
    places: Sequence[int] | None = None
    # The prompt number of each row.
    groups: Sequence[int] | None = None
    # User files by role; model folders and endpoints by name.
    files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    models: Mapping[str, Path] = field(default_factory=dict[str, Path])
    endpoints: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    # The environment's record of each row's episode, if the stage has an environment.
    episodes: Sequence[Mapping[str, Any]] | None = None
    # The number of tokens of each completion, without the end-of-sequence token.
    tokens: Sequence[int | None] | None = None


@dataclass(frozen=True, kw_only=True)
class OpResult:
    """The values of an op, with a reason for each row or None, and the rows whose text is unknown."""

    values: Column
    reasons: Sequence[str | None]
    unknown: frozenset[int] = frozenset()
