"""Leaves out rows that say nearly the same as an earlier one.

Which rows to compare is found by minhash: the signature of a set of runs of words holds, for each of
many random orders of all runs, the first; two sets agree in a place as often as they overlap. Rows
that agree in all places of some band are compared in full, so that nothing is left out by accident.
"""

from collections.abc import Callable, Iterable
from typing import Any

from posttrain.runtime.data.row_tables import check_columns, drop_rows, read_texts
from posttrain.runtime.data.shingles import shingles
from posttrain.spec.column_types import Columns
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import DataOp, Params

_NUM_PERMUTATIONS = 128


class NearDuplicates(Params):
    columns: list[str] = field(single=True, min_length=1, description="The columns whose text is compared.")
    similarity: float = field(
        default=0.8,
        ge=0.3,
        le=1,
        description="The share of runs of words that two rows have in common from which the later goes.",
    )
    words: int = field(default=5, ge=1, le=50, description="The words of a run.")


def columns(params: NearDuplicates, before: Columns) -> Columns:
    check_columns(before, params.columns, "text", "messages")
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
    rows = read_texts(connection, "rows", params.columns)
    sets = (shingles(text, params.words) for _, text in rows)
    drop_rows(connection, [rows[place][0] for place in find_near_duplicates(sets, params.similarity, seed)])


def find_near_duplicates(sets: Iterable[set[int]], similarity: float, seed: int) -> list[int]:
    """The places of sets that are as similar to an earlier one that is kept. Empty sets are like none."""
    import numpy as np

    signer = _make_minhash(rows_per_band(similarity), seed)
    seen: dict[tuple[int, bytes], list[int]] = {}
    kept: dict[int, Any] = {}
    found: list[int] = []
    for place, members in enumerate(sets):
        if not members:
            continue
        values = np.fromiter(members, dtype=np.uint64, count=len(members))
        bands = signer(values)
        near = sorted({other for key in bands for other in seen.get(key, ())})
        if any(jaccard_similarity(values, kept[other]) >= similarity for other in near):
            found.append(place)
            continue
        kept[place] = values
        for key in bands:
            seen.setdefault(key, []).append(place)
    return found


def jaccard_similarity(left: Any, right: Any) -> float:
    """The share of what either has that both have."""
    import numpy as np

    both = len(np.intersect1d(left, right, assume_unique=True))
    return both / (len(left) + len(right) - both)


def rows_per_band(similarity: float) -> int:
    """So many places a band that sets of this similarity meet in some band almost surely.

    With b bands of r places they miss each other with the chance (1 - s^r)^b.
    """
    fitting = [r for r in (1, 2, 4, 8, 16, 32) if (1 - similarity**r) ** (_NUM_PERMUTATIONS // r) <= 1e-4]
    return max(fitting, default=1)


def _make_minhash(width: int, seed: int) -> Callable[[Any], list[tuple[int, bytes]]]:
    """A function from the members of a set to its signature, in bands of so many places."""
    import numpy as np

    draw = np.random.default_rng(seed)
    # Each pair gives an order of all numbers: that of the high bits of factor * number + shift.
    factors = draw.integers(0, 1 << 63, size=(_NUM_PERMUTATIONS, 1), dtype=np.uint64) * np.uint64(
        2
    ) + np.uint64(1)
    shifts = draw.integers(0, 1 << 63, size=(_NUM_PERMUTATIONS, 1), dtype=np.uint64)

    def signature(values: Any) -> list[tuple[int, bytes]]:
        least = ((factors * values + shifts) >> np.uint64(16)).min(axis=1)
        bands = range(_NUM_PERMUTATIONS // width)
        return [(band, least[band * width : (band + 1) * width].tobytes()) for band in bands]

    return signature
