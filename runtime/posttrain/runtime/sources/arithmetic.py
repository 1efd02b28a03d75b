"""Source `arithmetic`: addition problems generated from a seed."""

import random
from typing import Any

from pydantic import Field

from posttrain.runtime.step_context import StepContext
from posttrain.spec.column_types import Columns
from posttrain.spec.extension import Params, Source


class Arithmetic(Params):
    digits: int = Field(default=2, ge=1, le=6, description="The number of digits of each operand.")
    count: int = Field(
        default=1000, ge=1, le=1_000_000, description="The number of problems, drawn without replacement."
    )
    seed: int = Field(default=1, ge=0, description="The seed of the random draw.")
    give_up_ratio: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="The share of completions whose tagged answer is `?` instead of the sum. Raise it to"
        " test how a method handles wrong completions.",
    )

    def check(self) -> None:
        if self.count > self.possible:
            raise ValueError(f"only {self.possible} sums of {self.digits}-digit numbers exist; lower `count`")

    @property
    def possible(self) -> int:
        return (9 * 10 ** (self.digits - 1)) ** 2


def columns(params: Arithmetic) -> Columns:
    return {"prompt": "text", "completion": "text", "answer": "text"}


def rows(params: Arithmetic) -> int:
    return params.count


EXTENSION = Source(
    name="arithmetic",
    summary="Generate sums of two numbers: `prompt` (12+34=), `completion` (working and answer), `answer`.",
    params=Arithmetic,
    columns=columns,
    rows=rows,
    stack=("duckdb",),
)


def run(params: Arithmetic, context: StepContext, connection: Any) -> None:
    """Make the table `source`."""
    import pyarrow

    table = pyarrow.table({name: [row[name] for row in generate_sums(params)] for name in columns(params)})
    connection.register("sums", table)
    connection.execute("CREATE TABLE source AS SELECT * FROM sums")


def generate_sums(params: Arithmetic) -> list[dict[str, str]]:
    """The rows. The same parameters generate the same rows on every machine."""
    draw = random.Random(params.seed)
    low = 10 ** (params.digits - 1)
    width = 9 * low
    rows: list[dict[str, str]] = []
    for pick in draw.sample(range(width * width), params.count):
        left, right = (low + part for part in divmod(pick, width))
        answer = str(left + right)
        # The working lists the digits from the last to the first, so that each carry is known.
        tagged = "?" if draw.random() < params.give_up_ratio else answer
        completion = f"{answer[::-1]}<answer>{tagged}</answer>"
        rows.append({"prompt": f"{left}+{right}=", "completion": completion, "answer": answer})
    return rows
