"""Data op `near_duplicates`: drop rows that are nearly identical to an earlier row.

MinHash finds candidate pairs. The signature of a set of n-grams has one entry for each of many random
permutations of all n-grams: the first n-gram of the set in that order. The probability that two sets agree
in an entry is their Jaccard similarity. Rows that agree in all entries of a band are candidates. Candidates
are compared in full, so that agreement by chance drops no row.
"""

from collections.abc import Callable, Iterable
from typing import Any

from pydantic import Field

from posttrain.runtime.data.row_tables import check_columns, drop_rows, read_texts
from posttrain.runtime.data.shingles import shingles
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import DataOp, Params
from posttrain.spec.field_types import OneOrMore

_NUM_PERMUTATIONS = 128


class NearDuplicates(Params):
    columns: OneOrMore[str] = Field(min_length=1, description="The columns whose text is compared.")
    similarity_threshold: float = Field(
        default=0.8,
        ge=0.3,
        le=1,
        description="The minimum Jaccard similarity of the n-grams of two rows at which the later row is"
        " dropped. Raise it to drop closer duplicates only.",
    )
    ngram_size: int = Field(default=5, ge=1, le=50, description="The length of an n-gram in words.")


def columns(params: NearDuplicates, before: Columns) -> Columns:
    check_columns(before, params.columns, "text", "messages")
    return before


EXTENSION = DataOp(
    name="near_duplicates",
    summary="Drop the rows that are nearly identical to an earlier row.",
    params=NearDuplicates,
    columns=columns,
    stack=("duckdb", "numpy"),
)


def run(params: NearDuplicates, connection: Any, seed: int) -> None:
    """Change the table `rows`."""
    rows = read_texts(connection, "rows", params.columns)
    sets = (shingles(text, params.ngram_size) for _, text in rows)
    drop_rows(
        connection,
        [rows[index][0] for index in find_near_duplicates(sets, params.similarity_threshold, seed)],
    )


def find_near_duplicates(sets: Iterable[set[int]], similarity: float, seed: int) -> list[int]:
    """The indices of sets with at least this similarity to an earlier set that is not a duplicate itself.

    An empty set is never a duplicate.
    """
    import numpy as np

    signer = _make_minhash(rows_per_band(similarity), seed)
    seen: dict[tuple[int, bytes], list[int]] = {}
    originals: dict[int, Any] = {}
    duplicates: list[int] = []
    for index, members in enumerate(sets):
        if not members:
            continue
        values = np.fromiter(members, dtype=np.uint64, count=len(members))
        bands = signer(values)
        candidates = sorted({other for key in bands for other in seen.get(key, ())})
        if any(jaccard_similarity(values, originals[other]) >= similarity for other in candidates):
            duplicates.append(index)
            continue
        originals[index] = values
        for key in bands:
            seen.setdefault(key, []).append(index)
    return duplicates


def jaccard_similarity(left: Any, right: Any) -> float:
    """The size of the intersection divided by the size of the union."""
    import numpy as np

    both = len(np.intersect1d(left, right, assume_unique=True))
    return both / (len(left) + len(right) - both)


def rows_per_band(similarity: float) -> int:
    """The largest number of rows in a band at which sets of this similarity almost surely share a band.

    With b bands of r rows, the probability that they share no band is (1 - s^r)^b.
    """
    fitting = [r for r in (1, 2, 4, 8, 16, 32) if (1 - similarity**r) ** (_NUM_PERMUTATIONS // r) <= 1e-4]
    return max(fitting, default=1)


def _make_minhash(width: int, seed: int) -> Callable[[Any], list[tuple[int, bytes]]]:
    """A function from the members of a set to its signature, in bands of `width` entries."""
    import numpy as np

    draw = np.random.default_rng(seed)
    # Each pair defines a permutation of all numbers: the order of the high bits of factor * number + shift.
    factors = draw.integers(0, 1 << 63, size=(_NUM_PERMUTATIONS, 1), dtype=np.uint64) * np.uint64(
        2
    ) + np.uint64(1)
    shifts = draw.integers(0, 1 << 63, size=(_NUM_PERMUTATIONS, 1), dtype=np.uint64)

    def signature(values: Any) -> list[tuple[int, bytes]]:
        minima = ((factors * values + shifts) >> np.uint64(16)).min(axis=1)
        bands = range(_NUM_PERMUTATIONS // width)
        return [(band, minima[band * width : (band + 1) * width].tobytes()) for band in bands]

    return signature
