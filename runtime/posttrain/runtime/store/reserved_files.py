"""Small records that must reach a full disk: a file of their size is written before."""

import errno
import os
from pathlib import Path

from posttrain.runtime.store.document_files import write_document
from posttrain.spec.canonical_json import canonical_json
from posttrain.spec.document import Document

RESERVED_BYTES = 1 << 16


def reserve(path: Path) -> None:
    """Reserve space for a record. Does nothing if the disk is full already, or the folder is gone."""
    try:
        _reserved(path).write_bytes(b" " * RESERVED_BYTES)
    except OSError:
        _reserved(path).unlink(missing_ok=True)


def write_reserved(path: Path, document: Document, *, sync: bool = True) -> None:
    """Replace a file atomically with a record. On a full disk, in the space that was reserved for it.

    The folder must exist.
    """
    try:
        write_document(path, document, sync=sync, create_folder=False)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _write_in_place(_reserved(path), canonical_json(document).encode())
        _reserved(path).replace(path)


def _write_in_place(path: Path, content: bytes) -> None:
    if len(content) > RESERVED_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.pwrite(descriptor, content.ljust(RESERVED_BYTES), 0)
    finally:
        os.close(descriptor)


def _reserved(path: Path) -> Path:
    return path.with_name(f".{path.name}.reserved")
