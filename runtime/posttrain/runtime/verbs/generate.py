"""Writes completions of a dataset's rows, or conversations about them, as rows of their own."""

from posttrain.runtime.context import Context
from posttrain.spec.extension import Verb

EXTENSION = Verb(
    name="generate",
    summary="The rows with completions beside them, the best of them, pairs, or conversations.",
    version=2,
    stack=("torch", "transformers", "tokenizers"),
    heavy=("torch", "transformers.modeling_utils", "transformers.generation.utils", "pyarrow.parquet"),
)


def run(context: Context) -> None:
    from posttrain.runtime.generation.rows import generate

    generate(context)
