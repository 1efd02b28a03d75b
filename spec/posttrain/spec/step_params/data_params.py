"""Parameters of a dataset."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from posttrain.spec.canonical_json import Json
from posttrain.spec.document import Document
from posttrain.spec.field_types import Items
from posttrain.spec.step_params.step_parameters import StepParams, omitted

# The role of a file of a data step is this prefix and the file's name in the recipe.
STEP_FILE_PREFIX = "step:"


class SourceParams(Document):
    """A source of rows. The source's own class validates `params`."""

    name: str
    params: Mapping[str, Json]


class RowRequirement(Document):
    """The number of rows that a step takes from a table."""

    table: Literal["rows", "other"]
    rows: int
    # The step, for the error message.
    step: str


class SqlOperation(Document):
    """A relational step, as SQL over the table `rows`."""

    op: Literal["sql"] = "sql"
    query: str
    needs: RowRequirement | None = omitted()
    # The reference of the other dataset that it reads.
    other: str | None = omitted()


class SplitOperation(Document):
    """Named parts of the rows, each a number of rows or a share."""

    op: Literal["split"] = "split"
    parts: Mapping[str, Json]
    group_by: Items[str]
    seed: int


class ExtensionOperation(Document):
    """A step that an extension computes. Its own class validates `params`."""

    op: str
    entry: str
    params: Mapping[str, Json]
    seed: int
    # The reference of the other dataset that it reads.
    other: str | None = omitted()


def _operation_type(value: Any) -> str:
    op: Any = value.get("op") if isinstance(value, Mapping) else value.op
    return op if op in ("sql", "split") else "extension"


Operation = Annotated[
    Annotated[SqlOperation, Tag("sql")]
    | Annotated[SplitOperation, Tag("split")]
    | Annotated[ExtensionOperation, Tag("extension")],
    Discriminator(_operation_type),
]


class DataStepParams(StepParams):
    """Parameters of a dataset. Without a source its rows are an input."""

    source: SourceParams | None
    operations: Items[Operation]
    seed: int
    columns: Mapping[str, str]
    # The rows of a window of a streamed dataset. Its product lists the files that a training reads.
    window_rows: int | None = omitted()
