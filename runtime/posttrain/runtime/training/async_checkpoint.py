"""Seals checkpoints (checksums and fsync) in a background thread while training continues.

Sealing can take as long as writing the files, and does not need the model.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from posttrain.runtime.step_context import StepContext
from posttrain.runtime.store import checkpoints


class AsyncCheckpoint:
    """Seals one checkpoint at a time in a thread. `wait` raises the errors of that thread."""

    def __init__(self, context: StepContext, keep: int) -> None:
        self._context = context
        self._keep = keep
        self._executor: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None

    def start_seal(self, checkpoint: Path, best: Path | None) -> None:
        """Start to seal a written checkpoint; then delete older checkpoints except `best`."""
        assert self._pending is None, "one at a time"
        self._executor = self._executor or ThreadPoolExecutor(1, thread_name_prefix="sealing")
        self._pending = self._executor.submit(self._seal, checkpoint, best)

    def wait(self) -> None:
        """Wait for the pending seal, if any."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def _seal(self, checkpoint: Path, best: Path | None) -> None:
        checkpoints.finalize(checkpoint)
        self._context.events.emit("checkpoint", step=checkpoints.checkpoint_step(checkpoint))
        checkpoints.prune(self._context.checkpoints, self._keep, also=best)
