"""Checkpoints are sealed beside the training: reading what was written, and bringing it to the disk, can
take as long as writing it did, and needs nothing of the model."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from posttrain.runtime.step_context import StepContext
from posttrain.runtime.store import checkpoints


class AsyncCheckpoint:
    """Seals one checkpoint at a time, in a thread; `settle` raises what went wrong there."""

    def __init__(self, context: StepContext, keep: int) -> None:
        self._context = context
        self._keep = keep
        self._executor: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None

    def start_seal(self, checkpoint: Path, best: Path | None) -> None:
        """Seal a checkpoint that is written, and delete those that it makes needless, but for `best`."""
        assert self._pending is None, "one at a time"
        self._executor = self._executor or ThreadPoolExecutor(1, thread_name_prefix="sealing")
        self._pending = self._executor.submit(self._seal, checkpoint, best)

    def wait(self) -> None:
        """Wait until what has begun is done."""
        under_way, self._pending = self._pending, None
        if under_way is not None:
            under_way.result()

    def _seal(self, checkpoint: Path, best: Path | None) -> None:
        checkpoints.finalize(checkpoint)
        self._context.events.emit("checkpoint", step=checkpoints.checkpoint_step(checkpoint))
        checkpoints.prune(self._context.checkpoints, self._keep, also=best)
