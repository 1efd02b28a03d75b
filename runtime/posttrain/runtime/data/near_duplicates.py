"""Leaves out rows that say nearly the same as an earlier one.

Which rows to compare is found by minhash: the signature of a set of runs of words holds, for each of
many random orders of all runs, the first; two sets agree in a place as often as they overlap. Rows
that agree in all places of some band are compared in full, so that nothing is left out by accident.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import Field, field_validator

from posttrain.runtime.data.shingles import shingles
from posttrain.runtime.data.tables import dropped, need, texts
from posttrain.spec.extension import DataOp, Params
from posttrain.spec.types import Columns

_PLACES = 128
_PRIME = (1 << 61) - 1


class NearDuplicates(Params):
    columns: list[str] = Field(min_length=1, description="The columns whose text is compared.")
    similarity: float = Field(
        default=0.8,
        ge=0.3,
        le=1,
        description="The share of runs of words that two rows have in common from which the later goes.",
    )
    words: int = Field(default=5, ge=1, le=50, description="The words of a run.")

    @field_validator("columns", mode="before")
    @classmethod
    def _listed(cls, given: Any) -> Any:
        return [given] if isinstance(given, str) else given


def columns(params: NearDuplicates, before: Columns) -> Columns:
    need(before, params.columns, "text", "messages")
    return before


EXTENSION = DataOp(
    name="near_duplicates",
    summary="Leave out rows that say nearly the same as an earlier one.",
    params=NearDuplicates,
    columns=columns,
    stack=("duckdb", "numpy"),
)


def run(params: NearDuplicates, connection: Any, seed: int) -> None:
    """Change the table `rows`."""
    rows = texts(connection, "rows", params.columns)
    sets = [shingles(text, params.words) for _, text in rows]
    dropped(connection, [rows[place][0] for place in repeated(sets, params.similarity, seed)])


def repeated(sets: Sequence[set[int]], similarity: float, seed: int) -> list[int]:
    """The places of sets that are as similar to an earlier one that is kept. Empty sets are like none."""
    seen: dict[tuple[int, bytes], list[int]] = {}
    found: list[int] = []
    for place, bands in _banded(sets, similarity, seed):
        near = {other for key in bands for other in seen.get(key, ())}
        if any(overlap(sets[place], sets[other]) >= similarity for other in near):
            found.append(place)
            continue
        for key in bands:
            seen.setdefault(key, []).append(place)
    return found


def overlap(left: set[int], right: set[int]) -> float:
    """The share of what either has that both have."""
    both = len(left & right)
    return both / (len(left) + len(right) - both)


def rows_in_band(similarity: float) -> int:
    """So many places a band that sets of this similarity meet in some band almost surely.

    With b bands of r places they miss each other with the chance (1 - s^r)^b.
    """
    fitting = [r for r in (1, 2, 4, 8, 16, 32) if (1 - similarity**r) ** (_PLACES // r) <= 1e-4]
    return max(fitting, default=1)


def _banded(
    sets: Sequence[set[int]], similarity: float, seed: int
) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
    """Each set that is not empty, with its signature in bands."""
    import numpy as np

    draw = np.random.default_rng(seed)
    factors = draw.integers(1, 1 << 32, size=_PLACES, dtype=np.uint64)[:, None]
    shifts = draw.integers(0, 1 << 32, size=_PLACES, dtype=np.uint64)[:, None]
    width = rows_in_band(similarity)
    for place, members in enumerate(sets):
        if not members:
            continue
        values = np.fromiter(members, dtype=np.uint64, count=len(members))[None, :]
        # Multiply-shift on both halves: the high bits of a product are well mixed.
        mixed = (values * (factors << np.uint64(1) | np.uint64(1)) + shifts) ^ (
            values >> np.uint64(32)
        ) * factors
        signature = (mixed >> np.uint64(16)).min(axis=1)
        yield (
            place,
            [
                (band, signature[band * width : (band + 1) * width].tobytes())
                for band in range(_PLACES // width)
            ],
        )
