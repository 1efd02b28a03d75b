"""Downloads blobs in pieces, continues after a broken connection, and compares them with their digests."""

import hashlib
from collections.abc import Callable
from io import BufferedRandom
from pathlib import Path

from posttrain.runtime.registry.oci_manifest import Descriptor
from posttrain.runtime.registry.registry_errors import ContentError, RegistryError
from posttrain.runtime.registry.registry_session import RegistrySession

_PIECE_BYTES = 1 << 20
_ATTEMPTS = 5  # in a row without progress
_ADVICE = "do not trust this content; fetch it again, or ask its publisher"


def download_blob(
    session: RegistrySession, blob: Descriptor, path: Path, on_size: Callable[[int], None]
) -> None:
    """Write a blob to a file; a file with the start of it is continued.

    `on_size` gets the size of the file as it grows.
    Raises `ContentError` if the registry returns other content, and removes the file then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        content = _HashedFile(file, on_size)
        _download_rest(session, blob, content)
    if content.size != blob.size or content.digest != blob.digest:
        path.unlink()
        raise _mismatch(session, blob, content.size)


class _HashedFile:
    """A file that is appended to, with the digest of its content."""

    def __init__(self, file: BufferedRandom, on_size: Callable[[int], None]) -> None:
        self._file = file
        self._on_size = on_size
        self._hasher = hashlib.sha256()
        self.size = 0
        file.seek(0)
        while piece := file.read(_PIECE_BYTES):
            self._hasher.update(piece)
            self.size += len(piece)
        on_size(self.size)

    @property
    def digest(self) -> str:
        return f"sha256:{self._hasher.hexdigest()}"

    def append(self, data: bytes) -> None:
        self._hasher.update(data)
        self._file.write(data)
        self.size += len(data)
        self._on_size(self.size)


def _download_rest(session: RegistrySession, blob: Descriptor, content: _HashedFile) -> None:
    failures = 0
    while (start := content.size) < blob.size:
        try:
            _append(session, blob, content)
            return
        except RegistryError as error:
            failures = 1 if content.size > start else failures + 1
            if failures == _ATTEMPTS or not error.retriable:
                raise


def _append(session: RegistrySession, blob: Descriptor, content: _HashedFile) -> None:
    """Append what the registry returns, and at most one byte more than the blob has."""
    start = content.size
    headers = {"Range": f"bytes={start}-"} if start else {}
    url = session.url(f"blobs/{blob.digest}")
    with session.open("GET", url, headers=headers, accepted=(200, 206)) as response:
        skipped = start if response.status_code == 200 else 0
        for piece in response.iter_raw():
            rest, skipped = piece[skipped:], max(0, skipped - len(piece))
            content.append(rest[: blob.size + 1 - content.size])
            if content.size > blob.size:
                return


def read_blob(session: RegistrySession, blob: Descriptor) -> bytes:
    """A small blob in memory."""
    data = bytearray()
    with session.open("GET", session.url(f"blobs/{blob.digest}")) as response:
        for piece in response.iter_raw():
            data += piece
            if len(data) > blob.size:
                break
    if len(data) != blob.size or f"sha256:{hashlib.sha256(data).hexdigest()}" != blob.digest:
        raise _mismatch(session, blob, len(data))
    return bytes(data)


def _mismatch(session: RegistrySession, blob: Descriptor, size: int) -> ContentError:
    what = "other content" if size == blob.size else f"{size} bytes instead of {blob.size}"
    return ContentError(
        f"digest mismatch: {session.endpoint.host} returned {what} for {blob.digest}", _ADVICE
    )
