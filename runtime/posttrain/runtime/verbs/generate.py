"""Writes completions of a dataset's rows, or conversations about them, as rows of their own."""

from posttrain.runtime.context import Context
from posttrain.spec.extension import Verb

EXTENSION = Verb(
    name="generate",
    summary="The rows with completions beside them, the best of them, pairs, or conversations.",
    version=2,
    heavy=("pyarrow.parquet",),  # what generates, an engine, has its own
)


def run(context: Context) -> None:
    from posttrain.runtime.generation.rows import generate

    generate(context)
