"""Sums made from a seed: question, worked answer, result."""

import random
from typing import Any

from pydantic import Field

from posttrain.spec.extension import Params, Source
from posttrain.spec.types import Columns

from posttrain.runtime.context import Context


class Arithmetic(Params):
    digits: int = Field(default=2, ge=1, le=6, description="Digits of each number.")
    count: int = Field(default=1000, ge=1, le=1_000_000, description="Different sums, drawn without repeats.")
    seed: int = Field(default=1, ge=0, description="Where the draw starts.")
    slips: float = Field(
        default=0.0, ge=0, le=1, description="The share of worked answers that forget to carry a one."
    )

    def model_post_init(self, _context: Any) -> None:
        if self.count > self.possible:
            raise ValueError(f"there are only {self.possible} sums of {self.digits}-digit numbers")

    @property
    def possible(self) -> int:
        return (9 * 10 ** (self.digits - 1)) ** 2


def columns(params: Arithmetic) -> Columns:
    return {"prompt": "text", "completion": "text", "answer": "text"}


def rows(params: Arithmetic) -> int:
    return params.count


EXTENSION = Source(
    name="arithmetic",
    summary="Sums of two numbers: `prompt` 12+34=, `completion` with the answer in tags, `answer`.",
    params=Arithmetic,
    columns=columns,
    rows=rows,
    stack=("duckdb",),
)


def run(params: Arithmetic, context: Context, connection: Any) -> None:
    """Make the table `source`."""
    import pyarrow

    made = pyarrow.table({name: [row[name] for row in sums(params)] for name in columns(params)})
    connection.register("made", made)
    connection.execute("CREATE TABLE source AS SELECT * FROM made")


def sums(params: Arithmetic) -> list[dict[str, str]]:
    """The rows; the same parameters give the same rows anywhere."""
    draw = random.Random(params.seed)
    low = 10 ** (params.digits - 1)
    width = 9 * low
    found: list[dict[str, str]] = []
    for pick in draw.sample(range(width * width), params.count):
        left, right = (low + part for part in divmod(pick, width))
        written = without_carries(left, right) if draw.random() < params.slips else left + right
        found.append(
            {
                "prompt": f"{left}+{right}=",
                "completion": f"<answer>{written}</answer>",
                "answer": str(left + right),
            }
        )
    return found


def without_carries(left: int, right: int) -> int:
    """The sum as somebody writes it who forgets to carry: each column by itself, the last in full."""
    columns = [int(a) + int(b) for a, b in zip(str(left), str(right), strict=True)]
    return int(str(columns[0]) + "".join(str(total % 10) for total in columns[1:]))
