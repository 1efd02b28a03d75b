"""What a reward op is given beside its operands, and what it may give back beside its values.

An op's `run(params, operands, batch)` takes a column of values for each operand, one value a row, and
gives a column back; or an `OpResult`, when there is more to say.

None means that there is no value. For text that is a fact about the completion: it was looked for
and is not there, so no test of it holds. For a number or a condition it is an abstention: nothing
is known, and whatever is computed from it abstains too. Where it could not be told whether a text is
there (a pattern ran out of time, a judge did not answer), its row is `unknown`: whatever reads it
abstains. Nothing of all this is ever taken for zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Column = list[Any]
Operands = dict[str, Any]
# The column of episodes, beside those that a graph reads: no column of data has this name.
EPISODES = "environment:episode"
# And that of how many tokens each completion has; None where nobody has counted.
TOKENS = "completion:tokens"


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The rows that an op is called for."""

    count: int
    # Rows of one number answer the same prompt.
    groups: Sequence[int] | None = None
    # The user's files by role, and the endpoints and the folders of models by name.
    files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    models: Mapping[str, Path] = field(default_factory=dict[str, Path])
    endpoints: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    # What the environment has to say of the episode that each row is, where there is one.
    episodes: Sequence[Mapping[str, Any]] | None = None
    # How many tokens each completion has, its end token aside.
    tokens: Sequence[int | None] | None = None


@dataclass(frozen=True, kw_only=True)
class OpResult:
    """Values with the reason for each, where there is one."""

    values: Column
    reasons: Sequence[str | None]
    unknown: frozenset[int] = frozenset()
