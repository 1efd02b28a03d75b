"""Verifies the working directories of unfinished steps: checkpoints, receipts and dangling links.

A partial file has no manifest or receipt, and the next attempt ignores it. The verification does the same.
"""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from posttrain.runtime import atomic_io
from posttrain.runtime.store import checkpoints, workdir
from posttrain.runtime.store.file_locks import is_held
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.verify_findings import Finding, VerifyProgress, finding_text
from posttrain.runtime.store.verify_products import dangling_links
from posttrain.spec.document_json import DocumentError, NewerFormatError


def verify_workdirs(home: Home, progress: VerifyProgress) -> Iterator[Finding]:
    folder = home.workdir("any").parent
    for work in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not work.is_dir():
            continue
        progress.count("unfinished steps")
        if is_held(home.step_lock(work.name)) or workdir.has_open_attempt(work):
            progress.count("running steps, not checked")
            continue
        yield from _verify_workdir(work, progress)


def _verify_workdir(work: Path, progress: VerifyProgress) -> Iterator[Finding]:
    step = atomic_io.read_json(work / "record" / "step.json")
    id = str(step["id"]) if isinstance(step, dict) and "id" in step else "?"
    for path, problem in _find_problems(work, progress):
        newer = isinstance(problem, NewerFormatError)
        yield Finding(
            kind="work",
            name=work.name,
            step=id,
            problem=finding_text(problem),
            repair=None if newer else partial(_remove, path),
            repair_note="removed: the step resumes from an intact checkpoint, or starts over",
        )


def _find_problems(work: Path, progress: VerifyProgress) -> Iterator[tuple[Path, DocumentError]]:
    """Each damaged file or folder, with the problem."""
    for checkpoint in checkpoints.complete_checkpoints(work / "checkpoints"):
        progress.count("checkpoints")
        try:
            checkpoints.check(checkpoint)
        except DocumentError as error:
            yield checkpoint, error
    receipt = work / "receipt.json"
    if receipt.exists():
        progress.count("receipts")
        problem = _receipt_problem(work)
        if problem is not None:
            yield receipt, problem
    for link in dangling_links(work):
        yield link, DocumentError(f"the link {link.relative_to(work)} is dangling")


def _receipt_problem(work: Path) -> DocumentError | None:
    try:
        workdir.read_receipt(work)
    except DocumentError as error:
        return error
    if (work / "commit").exists() or workdir.load_receipt(work, check_digests=True) is not None:
        return None
    return DocumentError("its product does not match its receipt")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
