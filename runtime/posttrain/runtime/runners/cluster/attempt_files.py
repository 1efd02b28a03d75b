"""The files by which a client and the program on a node agree on one attempt of a step.

WORK/attempt.json                  the current attempt; a program of another attempt stops and writes nothing
WORK/attempts/TOKEN/secrets.json   readable by the user alone; removed as soon as it is read
                    claim.json     who runs the attempt: the first claim counts
                    stop           asks the program to stop: `save`, or `now`
                    ended.json     the exit status, after the worker and its children ended
"""

import contextlib
import json
import os
import secrets as random_tokens
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from posttrain.runtime import atomic_io
from posttrain.runtime.runners.cluster.scheduler import JobState
from posttrain.runtime.store.document_files import read_document, write_document
from posttrain.runtime.store.reserved_files import reserve, write_reserved
from posttrain.spec.document_json import DocumentError
from posttrain.spec.record import record
from posttrain.spec.step_records import ClusterAttempt, ClusterClaim, ClusterEnd

DocumentT = TypeVar("DocumentT", ClusterAttempt, ClusterClaim, ClusterEnd)
# The job of a claim that the client itself made: no job can run the attempt any more.
WITHDRAWN = "withdrawn"


def new_token() -> str:
    return random_tokens.token_hex(8)


@record
class AttemptFiles:
    """The files of one attempt."""

    work: Path
    token: str

    @property
    def folder(self) -> Path:
        return self.work / "attempts" / self.token

    def take_secrets(self) -> dict[str, str]:
        """The values of the secrets. Their file is gone afterwards."""
        file = self.folder / "secrets.json"
        values = json.loads(file.read_text(encoding="utf-8"))
        file.unlink()
        return values

    def remove_secrets(self) -> None:
        (self.folder / "secrets.json").unlink(missing_ok=True)

    def claim(self, job: str, node: str) -> bool:
        """Claim the attempt for a job; false if another one has it."""
        if not self.folder.is_dir():  # void: a write would create it
            return False
        temporary = self.folder / f".claim.{os.getpid()}.{job}"
        try:
            write_document(temporary, ClusterClaim(job=job, node=node), sync=False)
            # Unlike a rename, a link fails if its target exists; the content is there from the start.
            (self.folder / "claim.json").hardlink_to(temporary)
        except (FileExistsError, FileNotFoundError):
            return False
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def claimed_by(self) -> ClusterClaim | None:
        return _read(ClusterClaim, self.folder / "claim.json")

    def request_stop(self, *, now: bool) -> None:
        if self.folder.is_dir():
            atomic_io.write_text(self.folder / "stop", "now" if now else "save", sync=False)

    def stop_requested(self) -> str:
        """`save`, `now`, or nothing."""
        try:
            return (self.folder / "stop").read_text(encoding="utf-8")
        except OSError:
            return ""

    def end(self, status: int, *, terminated: bool) -> None:
        """Record the end, also on a full disk. Without the folder, the step was given up."""
        with contextlib.suppress(FileNotFoundError):
            write_reserved(self.folder / "ended.json", ClusterEnd(status=status, terminated=terminated))

    def ended(self) -> ClusterEnd | None:
        return _read(ClusterEnd, self.folder / "ended.json")


def begin_attempt(work: Path, attempt: ClusterAttempt, secrets: Mapping[str, str]) -> AttemptFiles:
    """Make an attempt the current one. Earlier attempts become void."""
    shutil.rmtree(work / "attempts", ignore_errors=True)
    files = AttemptFiles(work, attempt.token)
    files.folder.mkdir(parents=True)
    reserve(files.folder / "ended.json")
    if secrets:
        descriptor = os.open(files.folder / "secrets.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(dict(secrets), file)
    write_document(work / "attempt.json", attempt, sync=False)
    return files


def current_attempt(work: Path) -> ClusterAttempt | None:
    return _read(ClusterAttempt, work / "attempt.json")


def forget_attempt(work: Path) -> None:
    """Void the current attempt: what still runs of it stops by itself."""
    attempt = current_attempt(work)
    (work / "attempt.json").unlink(missing_ok=True)
    if attempt is not None:
        AttemptFiles(work, attempt.token).remove_secrets()


def has_live_job(work: Path, jobs: Sequence[JobState]) -> bool:
    """Whether one of the jobs waits for the current attempt of a step, or runs it."""
    attempt = current_attempt(work)
    if attempt is None:
        return False
    claim = AttemptFiles(work, attempt.token).claimed_by()
    live = [job for job in jobs if job.phase != "over"]
    if claim is None:
        return any(job.name == attempt.job_name for job in live)
    return any(job.id == claim.job for job in live)


def _read(model: type[DocumentT], path: Path) -> DocumentT | None:
    try:
        return read_document(model, path)
    except DocumentError:
        return None
