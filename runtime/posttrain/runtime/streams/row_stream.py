"""The product of a streamed dataset: the files with its rows, and what becomes of each row."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from posttrain.runtime.errors import StepError
from posttrain.runtime.store.document_files import read_document, write_document
from posttrain.spec.document import Document
from posttrain.spec.document_json import DocumentError
from posttrain.spec.field_types import Items
from posttrain.spec.step_params.data_params import Operation

STREAM_FILE = "stream.json"


class StreamFile(Document):
    """A file of a dataset on the Hub."""

    path: str
    size: int
    # `sha256:HEX`, or `git:HEX` for a file that Git stores itself.
    checksum: str


class RowStream(Document):
    TITLE: ClassVar[str] = "the list of the files of a streamed dataset"
    ADVICE: ClassVar[str] = "run the recipe again: the dataset is built again"
    FORMAT: ClassVar[int | None] = 1

    format: Literal[1] = 1
    # The repository on the Hub, at a commit.
    repository: str
    commit: str
    reader: Literal["parquet", "json"]
    files: Items[StreamFile]
    # The columns in the files, with their declared types.
    columns: Mapping[str, str]
    operations: Items[Operation]
    window_rows: int


def is_stream(folder: Path) -> bool:
    """Whether the product of a dataset is a stream."""
    return (folder / STREAM_FILE).exists()


def write_stream(stream: RowStream, folder: Path) -> None:
    write_document(folder / STREAM_FILE, stream, sync=False)


def read_stream(folder: Path) -> RowStream:
    try:
        return read_document(RowStream, folder / STREAM_FILE)
    except DocumentError as error:
        raise StepError(str(error), error.advice) from None
