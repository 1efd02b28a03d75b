"""Sums made from a seed: question, worked answer, result."""

import random
from typing import Any

from posttrain.runtime.step_context import StepContext
from posttrain.spec.column_types import Columns
from posttrain.spec.declaration_fields import field
from posttrain.spec.extension import Params, Source


class Arithmetic(Params):
    digits: int = field(default=2, ge=1, le=6, description="Digits of each number.")
    count: int = field(default=1000, ge=1, le=1_000_000, description="Different sums, drawn without repeats.")
    seed: int = field(default=1, ge=0, description="Where the draw starts.")
    give_up_ratio: float = field(
        default=0.0, ge=0, le=1, description="The share of worked answers that end in `?` all the same."
    )

    def check(self) -> None:
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
    summary="Sums of two numbers: `prompt` 12+34=, `completion` with working and tagged answer, `answer`.",
    params=Arithmetic,
    columns=columns,
    rows=rows,
    stack=("duckdb",),
)


def run(params: Arithmetic, context: StepContext, connection: Any) -> None:
    """Make the table `source`."""
    import pyarrow

    made = pyarrow.table({name: [row[name] for row in generate_sums(params)] for name in columns(params)})
    connection.register("made", made)
    connection.execute("CREATE TABLE source AS SELECT * FROM made")


def generate_sums(params: Arithmetic) -> list[dict[str, str]]:
    """The rows; the same parameters give the same rows anywhere."""
    draw = random.Random(params.seed)
    low = 10 ** (params.digits - 1)
    width = 9 * low
    found: list[dict[str, str]] = []
    for pick in draw.sample(range(width * width), params.count):
        left, right = (low + part for part in divmod(pick, width))
        answer = str(left + right)
        # The working writes the digits as they come: from the last, so that carries are known.
        given = "?" if draw.random() < params.give_up_ratio else answer
        completion = f"{answer[::-1]}<answer>{given}</answer>"
        found.append({"prompt": f"{left}+{right}=", "completion": completion, "answer": answer})
    return found
