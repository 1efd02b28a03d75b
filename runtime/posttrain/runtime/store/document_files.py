"""Reads and writes the files of documents. Every record that crosses a trust boundary passes here."""

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from posttrain.runtime import atomic_io
from posttrain.spec.document_json import MAX_DOCUMENT_BYTES, DocumentError

if TYPE_CHECKING:
    from posttrain.spec.document import Document

DocumentT = TypeVar("DocumentT", bound="Document")


def read_document(model: type[DocumentT], path: Path) -> DocumentT:
    """The document in a file. Raises `DocumentError` with the file, the field, the cause and an advice."""
    from posttrain.spec.document_reader import parse_document

    try:
        return parse_document(model, read_limited(path, model.ADVICE))
    except DocumentError as error:
        raise type(error)(f"{path}: {error}", error.advice) from None


def write_document(
    path: Path, document: "Document", *, sync: bool = True, create_folder: bool = True
) -> None:
    """Replace a file atomically with a document."""
    atomic_io.write_json(path, document.model_dump(), sync=sync, create_folder=create_folder)


def read_limited(path: Path, advice: str = "") -> bytes:
    """The content of a regular file of a plausible size. Raises `DocumentError`."""
    try:
        # A pipe would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        cause = "the file is missing" if error.errno == errno.ENOENT else error.strerror
        raise DocumentError(str(cause), advice) from None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise DocumentError("it is not a regular file", advice)
        if about.st_size > MAX_DOCUMENT_BYTES:
            raise DocumentError(f"it has {about.st_size >> 20} MB, which no such file has", advice)
        with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.read()
    except OSError as error:
        raise DocumentError(str(error.strerror), advice) from None
    finally:
        os.close(descriptor)
