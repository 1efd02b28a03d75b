"""Uploads blobs: in one request, or in chunks that continue where an interrupted upload ended.

The address of an upload in progress is kept in the cache of the user, so that the next command continues it.
Between two chunks every registry can continue; some discard an upload whose connection broke inside of one.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from posttrain.runtime import atomic_io
from posttrain.runtime.registry.registry_errors import RegistryError
from posttrain.runtime.registry.registry_session import RegistrySession
from posttrain.spec.record import record

CHUNK_BYTES = 64 << 20
_READ_BYTES = 1 << 20
_MAX_DIGITS = 19
_ATTEMPTS = 5  # in a row without progress


@record(kw_only=True)
class Blob:
    """The content of a blob: a file, or bytes in memory."""

    digest: str
    size: int
    path: Path | None = None
    data: bytes = b""

    def read(self, start: int, end: int) -> Iterator[bytes]:
        if self.path is None:
            yield self.data[start:end]
            return
        with self.path.open("rb", buffering=0) as file:
            file.seek(start)
            while start < end and (piece := file.read(min(_READ_BYTES, end - start))):
                start += len(piece)
                yield piece


class BlobUpload:
    """The upload of one blob to one repository."""

    def __init__(self, session: RegistrySession, blob: Blob, state: Path, chunk_bytes: int) -> None:
        self._session = session
        self._blob = blob
        self._state = state
        self._chunk = chunk_bytes

    def send(self) -> None:
        if self._blob.size <= self._chunk:
            self._send_at_once()
            return
        failures = 0
        location, offset = self._resume() or self._begin()
        while offset < self._blob.size:
            try:
                location, after = self._send_chunk(location, offset)
                if not offset < after <= self._blob.size:
                    raise self._no_progress()
            except RegistryError as error:
                failures += 1
                if failures == _ATTEMPTS or not (error.retriable or error.status in (404, 416)):
                    raise
                location, after = self._resume() or self._begin()
            failures = 0 if after > offset else failures
            offset = after
        self._finish(location)

    def _no_progress(self) -> RegistryError:
        message = (
            f"{self._session.endpoint.host} accepts parts of {self._blob.digest} and does not store them"
        )
        return RegistryError(message, "try again, or use another registry", retriable=True)

    def _send_at_once(self) -> None:
        location, _ = self._begin()
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(self._blob.size)}
        url = self._resolve(location)
        with self._session.open(
            "PUT",
            url,
            headers=headers,
            params={"digest": self._blob.digest},
            body=self._body(0, self._blob.size),
            accepted=(201,),
        ):
            pass

    def _begin(self) -> tuple[str, int]:
        url = self._session.url("blobs/uploads/")
        with self._session.open("POST", url, headers={"Content-Length": "0"}, accepted=(202,)) as response:
            minimum = response.headers.get("oci-chunk-min-length", "")
            self._chunk = max(self._chunk, _number(minimum))
            return response.headers.get("location", ""), 0

    def _resume(self) -> tuple[str, int] | None:
        """Where the upload in progress is and how much of it the registry has; None without one."""
        found: Any = atomic_io.read_json(self._state)
        location = found.get("location") if isinstance(found, dict) else None
        if not isinstance(location, str):
            return None
        try:
            with self._session.open("GET", self._resolve(location), accepted=(204,)) as response:
                return response.headers.get("location", location), _end_of_range(response)
        except RegistryError as error:
            if error.retriable:
                raise
            self._state.unlink(missing_ok=True)  # the registry has discarded it
            return None

    def _send_chunk(self, location: str, offset: int) -> tuple[str, int]:
        end = min(offset + self._chunk, self._blob.size)
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(end - offset),
            "Content-Range": f"{offset}-{end - 1}",
        }
        with self._session.open(
            "PATCH",
            self._resolve(location),
            headers=headers,
            body=self._body(offset, end),
            accepted=(202,),
            attempts=1,  # after a failure, the registry says where to continue
        ) as response:
            location = response.headers.get("location", location)
            reached = _end_of_range(response)
        with suppress(OSError):  # without a cache, an interrupted upload starts again
            atomic_io.write_text(self._state, json.dumps({"location": location}), sync=False)
        return location, reached

    def _finish(self, location: str) -> None:
        with self._session.open(
            "PUT",
            self._resolve(location),
            headers={"Content-Length": "0"},
            params={"digest": self._blob.digest},
            accepted=(201,),
        ):
            pass
        self._state.unlink(missing_ok=True)

    def _body(self, start: int, end: int) -> Callable[[], Iterable[bytes]]:
        return lambda: self._blob.read(start, end)

    def _resolve(self, location: str) -> str:
        return str(self._session.resolve(location))


def _end_of_range(response: httpx.Response) -> int:
    """The number of bytes that the registry has: one more than the end of its Range header."""
    end = response.headers.get("range", "").rpartition("-")[2]
    return _number(end) + 1 if _number(end) else 0


def _number(text: str) -> int:
    """A number of bytes in a header; 0 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < _MAX_DIGITS else 0
