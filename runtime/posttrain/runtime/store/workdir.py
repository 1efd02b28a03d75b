"""Prepares the working directory of a step, and commits its result to the store.

work/KEY/job.json        the paths of the inputs
work/KEY/user/           copies of the user's files
work/KEY/record/         step.json, events.jsonl, log
work/KEY/checkpoints/    state from which a later attempt resumes
work/KEY/files/          the product under construction
work/KEY/receipt.json    written by the worker when the product is complete, with its digests
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.runtime import atomic_io, errors
from posttrain.runtime.errors import NO_SPACE, StepError
from posttrain.runtime.store.checksums import read_checksummed
from posttrain.runtime.store.launch_record import launch_record
from posttrain.runtime.store.products import Product, Store
from posttrain.spec.canonical_json import canonical_json

if TYPE_CHECKING:
    from posttrain.spec.plan import Step


def prepare(work: Path, step: "Step", inputs: Mapping[str, Path], recipe_dir: Path) -> None:
    """Create the files that the worker needs. The state of earlier attempts stays."""
    (work / "record").mkdir(parents=True, exist_ok=True)
    # No digest covers this cache of a library.
    shutil.rmtree(work / "scratch" / "datasets", ignore_errors=True)
    (work / "failure.json").unlink(missing_ok=True)  # from an earlier attempt
    # Each attempt rewrites these files, so they need no sync.
    atomic_io.write_text(work / "record" / "step.json", canonical_json(step) + "\n", sync=False)
    files = {
        role: _copy_user_file(work, recipe_dir / file.path, file.sha256) for role, file in step.files.items()
    }
    earlier = atomic_io.read_json(work / "job.json")
    attempt = earlier["attempt"] + 1 if isinstance(earlier, dict) else 1
    job = {"attempt": attempt, "inputs": {r: str(p) for r, p in inputs.items()}, "files": files}
    atomic_io.write_json(work / "job.json", job, sync=False)


def _copy_user_file(work: Path, source: Path, sha256: str) -> str:
    """Copy a user's file, so that it cannot change while the step reads it."""
    copy = work / "user" / sha256[:16] / source.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    try:
        original = source.open("rb")
    except OSError as error:
        raise StepError(f"cannot read {source}: {error.strerror}", "restore the file and run again") from None
    with original, copy.open("wb") as file:  # in chunks, because it can be the weights of a model
        shutil.copyfileobj(original, file)
    if atomic_io.sha256_file(copy) != sha256:
        raise StepError(f"{source} changed after the plan was made", "run again to make a new plan")
    return str(copy)


def load_receipt(work: Path, *, check_digests: bool = False) -> dict[str, Any] | None:
    """The receipt of a step that succeeded but is not in the store yet, if its product is complete.

    An earlier client can have died during the commit, after it moved the product; it is moved back.
    `check_digests` is for a product that this client did not watch until the end.
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
    matches = not check_digests or atomic_io.file_digests(work / "files") == receipt["files"]
    return receipt if matches else None


def commit(work: Path, step: "Step", key: str, receipt: Mapping[str, Any], store: Store) -> Product:
    """Commit the finished step to the store and remove its working directory."""
    about = {
        "step": step.id,
        "kind": step.kind,
        "key_parts": dict(step.key_parts),
        "key_values": dict(step.key_values),
        "facts": receipt["facts"],
        "cost": receipt["cost"],
        "launch": launch_record(_started_step(work) or step),
    }
    digests = receipt["files"] if "files" in receipt else atomic_io.sync_and_digest(work / "files")
    product = store.commit(key, work / "files", work / "record", digests, about)
    clear(work)
    return product


def _started_step(work: Path) -> "Step | None":
    """The step as its worker got it. An earlier client can have started it with another launch."""
    found = atomic_io.read_json(work / "record" / "step.json")
    from posttrain.spec.plan import step_from_dict

    return step_from_dict(found) if isinstance(found, dict) else None


def clear(work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)


def timeout_failure(step: "Step") -> dict[str, Any]:
    message = f"timeout after {step.timeout_minutes:g} minutes"
    return errors.failure_record(
        StepError(message, "raise timeout_minutes; the next run resumes from the last checkpoint")
    )


def read_failure(work: Path, status: int, step: "Step") -> dict[str, Any]:
    """The failure of a step: as the step recorded it, or derived from its exit status."""
    failure = atomic_io.read_json(work / "failure.json")
    if isinstance(failure, dict):
        return failure
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
    else:
        message, advice = f"the step exited with status {status} and no receipt", "see `recipe logs STAGE`"
    return errors.failure_record(StepError(message, advice, retriable=status < 0))


def _memory_estimate(step: "Step") -> str:
    """The plan's estimate of the step's system memory, as text."""
    known = None if step.resources.gpus else (step.estimate or {}).get("memory_gb")
    return "" if known is None else f" (the plan estimated {known:g} GB)"
