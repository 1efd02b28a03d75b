"""Prepares the working directory of a step, and commits its result to the store.

work/KEY/job.json        the paths of the inputs
work/KEY/user/           copies of the user's files
work/KEY/record/         step.json, events.jsonl, log
work/KEY/checkpoints/    state from which a later attempt resumes
work/KEY/files/          the product under construction
work/KEY/receipt.json    written by the worker when the product is complete, with its digests
"""

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import NO_SPACE, StepError, failure_record
from posttrain.runtime.store.document_files import read_document, write_document
from posttrain.runtime.store.launch_record import launch_record
from posttrain.runtime.store.product_outline import STEP_FILE
from posttrain.runtime.store.products import Product, Store
from posttrain.runtime.store.user_files import find_user_file
from posttrain.spec.canonical_json import Json, canonical_json
from posttrain.spec.document_json import DocumentError

if TYPE_CHECKING:
    from posttrain.spec.plan import Step, UserFile
    from posttrain.spec.step_records import Failure, Receipt


def prepare(work: Path, step: "Step", inputs: Mapping[str, Path], recipe_dir: Path) -> None:
    """Create the files that the worker needs. The state of earlier attempts stays."""
    (work / "record").mkdir(parents=True, exist_ok=True)
    # No digest covers this cache of a library.
    shutil.rmtree(work / "scratch" / "datasets", ignore_errors=True)
    (work / "failure.json").unlink(missing_ok=True)  # from an earlier attempt
    # Each attempt rewrites these files, so they need no sync.
    atomic_io.write_text(work / "record" / STEP_FILE, canonical_json(step) + "\n", sync=False)
    files = {
        role: _copy_user_file(work, find_user_file(recipe_dir, file), file)
        for role, file in step.files.items()
    }
    from posttrain.spec.step_records import Job

    paths = {role: str(path) for role, path in inputs.items()}
    job = Job(attempt=_earlier_attempts(work) + 1, inputs=paths, files=files)
    write_document(work / "job.json", job, sync=False)


def has_open_attempt(work: Path) -> bool:
    """Whether a job of a cluster can still use this directory: nothing recorded its end."""
    from posttrain.spec.step_records import ClusterAttempt

    try:
        token = read_document(ClusterAttempt, work / "attempt.json").token
    except DocumentError:
        return False
    return not (work / "attempts" / token / "ended.json").exists()


def _earlier_attempts(work: Path) -> int:
    from posttrain.spec.step_records import Job

    try:
        return read_document(Job, work / "job.json").attempt
    except DocumentError:
        return 0


def _copy_user_file(work: Path, source: Path, file: "UserFile") -> str:
    """Copy a user's file, so that it cannot change while the step reads it."""
    copy = work / "user" / file.sha256[:16] / Path(file.path).name
    copy.parent.mkdir(parents=True, exist_ok=True)
    try:
        original = source.open("rb")
    except OSError as error:
        raise StepError(f"cannot read {source}: {error.strerror}", "restore the file and run again") from None
    with original, copy.open("wb") as target:  # in chunks, because it can be the weights of a model
        shutil.copyfileobj(original, target)
    if atomic_io.sha256_file(copy) != file.sha256:
        raise StepError(f"{source} changed after the plan was made", "run again to make a new plan")
    return str(copy)


def record_digests(record: Path) -> dict[str, dict[str, Json]]:
    """The size and the digest of the step in a record, if there is one."""
    path = record / STEP_FILE
    if not path.is_file():
        return {}
    return {STEP_FILE: {"size": path.stat().st_size, "sha256": atomic_io.sha256_file(path)}}


def write_receipt(
    work: Path,
    key: str,
    facts: Mapping[str, Any],
    cost: Mapping[str, float],
    record: Mapping[str, Mapping[str, Json]] | None = None,
) -> "Receipt":
    """Flush the product to the disk, then write the receipt that declares it complete.

    `record` has the digests of the record from the start of the step; default: those of now. Raises StepError
    for a product that no manifest can describe.
    """
    from posttrain.spec.document_reader import create_document
    from posttrain.spec.step_records import Receipt

    files = atomic_io.sync_and_digest(work / "files")
    try:
        receipt = create_document(
            Receipt,
            key=key,
            files=files,
            record=record_digests(work / "record") if record is None else record,
            facts=_as_json(facts),
            cost=cost,
        )
    except DocumentError as error:
        raise StepError(f"invalid result of the step: {error}", "correct the names of its files") from None
    write_document(work / "receipt.json", receipt)
    return receipt


def _as_json(value: Any) -> Any:
    """Facts as JSON has them: a list for a tuple, null for a number that is not finite."""
    if isinstance(value, Mapping):
        return {str(name): _as_json(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_receipt(work: Path) -> "Receipt":
    """The receipt of a step. Raises `DocumentError`."""
    from posttrain.spec.step_records import Receipt

    return read_document(Receipt, work / "receipt.json")


def load_receipt(work: Path, *, check_digests: bool = False) -> "Receipt | None":
    """The receipt of a step that succeeded but is not in the store yet, if its product is complete.

    An earlier client can have died during the commit, after it moved the product; it is moved back.
    `check_digests` is for a product that this client did not watch until the end.
    """
    try:
        receipt = read_receipt(work)
    except DocumentError:
        return None
    for name in ("files", "record"):
        moved = work / "commit" / name
        if moved.exists() and not (work / name).exists():
            moved.rename(work / name)
    sizes = {name: path.stat().st_size for name, path in atomic_io.iter_files(work / "files")}
    if sizes != {name: item.size for name, item in receipt.files.items()}:
        return None
    record = {name: item.model_dump() for name, item in receipt.record.items()}
    if record and record_digests(work / "record") != record:
        return None
    expected = {name: item.model_dump() for name, item in receipt.files.items()}
    matches = not check_digests or atomic_io.file_digests(work / "files") == expected
    return receipt if matches else None


def commit(work: Path, step: "Step", key: str, receipt: "Receipt", store: Store) -> Product:
    """Commit the finished step to the store and remove its working directory."""
    from posttrain.spec.document_reader import create_document
    from posttrain.spec.product_manifest import Manifest

    manifest = create_document(
        Manifest,
        key=key,
        step=step.id,
        kind=step.kind,
        key_parts=step.key_parts,
        key_values=step.key_values,
        files=receipt.files,
        record=receipt.record,
        facts=receipt.facts,
        cost=receipt.cost,
        launch=launch_record(_started_step(work) or step),
    )
    product = store.commit(manifest, work / "files", work / "record")
    clear(work)
    return product


def _started_step(work: Path) -> "Step | None":
    """The step as its worker got it. An earlier client can have started it with another launch."""
    from posttrain.spec.plan import Step

    try:
        return read_document(Step, work / "record" / STEP_FILE)
    except DocumentError:
        return None


def clear(work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)


def timeout_failure(step: "Step") -> "Failure":
    message = f"timeout after {step.timeout_minutes:g} minutes"
    return failure_record(
        StepError(message, "raise timeout_minutes; the next run resumes from the last checkpoint")
    )


def read_failure(work: Path, status: int, step: "Step") -> "Failure":
    """The failure of a step: as the step recorded it, or derived from its exit status."""
    from posttrain.spec.step_records import Failure

    if (work / "failure.json").exists():
        try:
            return read_document(Failure, work / "failure.json")
        except DocumentError as error:
            return failure_record(StepError(f"the step failed, and {error}", error.advice))
    if status == NO_SPACE:
        message = "the disk is full: the step could not even record its failure"
        advice = "free space and run again; finished steps stay in the store"
    elif status == -9:
        message = "the step was killed (signal 9)"
        advice = (
            f"if nobody killed it, the machine ran out of memory{_memory_estimate(step)}: lower"
            " micro_batch_size, or run fewer steps at the same time"
        )
    elif status < 0:
        message, advice = f"the step was killed by signal {-status}", "see `recipe logs STAGE`"
    elif status == 0 and (work / "receipt.json").exists():
        message = "its product or its record has changed since the step read or wrote it"
        advice = "run again; if it happens again, let the disk be checked"
    else:
        message, advice = f"the step exited with status {status} and no receipt", "see `recipe logs STAGE`"
    return failure_record(StepError(message, advice, retriable=status < 0))


def _memory_estimate(step: "Step") -> str:
    """The plan's estimate of the step's system memory, as text."""
    known = None if step.resources.gpus else (step.estimate or {}).get("memory_gb")
    return "" if known is None else f" (the plan estimated {known:g} GB)"
