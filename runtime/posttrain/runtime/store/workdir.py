"""Prepares the working directory of a step, and commits its result to the store.

work/KEY/job.json        where the inputs lie
work/KEY/user/           the user's files, as they were
work/KEY/record/         step.json, events.jsonl, log
work/KEY/checkpoints/    what a later attempt goes on from
work/KEY/files/          the product, while it is made
work/KEY/receipt.json    the worker's word that the product is whole, with its digests
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io, errors
from posttrain.runtime.errors import NO_SPACE, StepError
from posttrain.runtime.store.checksums import read_checksummed
from posttrain.runtime.store.products import Product, Store
from posttrain.spec.plan import Step, step_to_json


def prepare(work: Path, step: Step, inputs: Mapping[str, Path], recipe_dir: Path) -> None:
    """Lay everything out that the worker needs. What earlier attempts kept stays."""
    (work / "record").mkdir(parents=True, exist_ok=True)
    # What a library kept there is held to no digest.
    shutil.rmtree(work / "scratch" / "datasets", ignore_errors=True)
    (work / "failure.json").unlink(missing_ok=True)  # an earlier attempt's
    # Each attempt writes these anew: they need not outlive the machine.
    atomic_io.write_text(work / "record" / "step.json", step_to_json(step), sync=False)
    files = {
        role: _copy_user_file(work, recipe_dir / file.path, file.sha256) for role, file in step.files.items()
    }
    earlier = atomic_io.read_json(work / "job.json")
    attempt = earlier["attempt"] + 1 if isinstance(earlier, dict) else 1
    job = {"attempt": attempt, "inputs": {r: str(p) for r, p in inputs.items()}, "files": files}
    atomic_io.write_json(work / "job.json", job, sync=False)


def _copy_user_file(work: Path, source: Path, sha256: str) -> str:
    """A copy of a user's file: what the step reads cannot change under it."""
    copy = work / "user" / sha256[:16] / source.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    try:
        original = source.open("rb")
    except OSError as error:
        raise StepError(
            f"cannot read {source}: {error.strerror}", "put the file back and run again"
        ) from None
    with original, copy.open("wb") as file:  # piece by piece: it may be the weights of a model
        shutil.copyfileobj(original, file)
    if atomic_io.sha256_file(copy) != sha256:
        raise StepError(f"{source} changed after the plan was made", "run again: the plan is made anew")
    return str(copy)


def load_receipt(work: Path, *, left: bool = False) -> dict[str, Any] | None:
    """The receipt of a step that has ended well but is not in the store yet.

    One that an earlier client has `left` is held to its digests. That client may have died while it
    committed and have moved the product already; it is moved back.
    """
    receipt = read_checksummed(work / "receipt.json")
    if receipt is None:
        return None
    for name in ("files", "record"):
        moved = work / "commit" / name
        if moved.exists() and not (work / name).exists():
            moved.rename(work / name)
    sizes = {name: path.stat().st_size for name, path in atomic_io.iter_files(work / "files")}
    if sizes != {name: item["size"] for name, item in receipt["files"].items()}:
        return None
    return receipt if not left or atomic_io.file_digests(work / "files") == receipt["files"] else None


def commit(work: Path, step: Step, key: str, receipt: Mapping[str, Any], store: Store) -> Product:
    """Bring the finished step into the store and remove its working directory."""
    about = {
        "step": step.id,
        "kind": step.kind,
        "key_parts": dict(step.key_parts),
        "key_values": dict(step.key_values),
        "facts": receipt["facts"],
        "cost": receipt["cost"],
    }
    digests = receipt["files"] if "files" in receipt else atomic_io.sync_and_digest(work / "files")
    product = store.commit(key, work / "files", work / "record", digests, about)
    clear(work)
    return product


def clear(work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)


def timeout_failure(step: Step) -> dict[str, Any]:
    message = f"it took longer than its {step.timeout_minutes:g} minutes"
    return errors.failure_record(
        StepError(message, "raise timeout_minutes; what its checkpoints hold is kept")
    )


def read_failure(work: Path, status: int, step: Step) -> dict[str, Any]:
    """Why a step ended badly: in its own words, or by how its process ended."""
    failure = atomic_io.read_json(work / "failure.json")
    if isinstance(failure, dict):
        return failure
    if status == NO_SPACE:
        message = "the disk is full: not even the step's failure could be written down"
        advice = "free space and run again: finished steps are kept"
    elif status == -9:
        message = "the step was killed (signal 9)"
        advice = (
            f"if nobody ended it, memory ran out{_memory_estimate(step)}: lower micro_batch_size, or run less"
            " beside it"
        )
    elif status < 0:
        message, advice = f"the step was ended by signal {-status}", "see `recipe logs STAGE`"
    else:
        message, advice = f"the step ended with status {status} and no receipt", "see `recipe logs STAGE`"
    return errors.failure_record(StepError(message, advice, retriable=status < 0))


def _memory_estimate(step: Step) -> str:
    """What the plan thought that the step would take of the machine's memory."""
    known = None if step.resources.gpus else (step.estimate or {}).get("memory_gb")
    return "" if known is None else f" (the plan estimated {known:g} GB)"
