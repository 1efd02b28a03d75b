"""Checkpoints are sealed beside the training: reading what was written, and bringing it to the disk, can
take as long as writing it did, and needs nothing of the model."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from posttrain.runtime import checkpoints
from posttrain.runtime.context import Context


class Sealing:
    """Seals one checkpoint at a time, in a thread; `settle` raises what went wrong there."""

    def __init__(self, context: Context, keep: int) -> None:
        self._context = context
        self._keep = keep
        self._beside: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None

    def begin(self, checkpoint: Path, best: Path | None) -> None:
        """Seal a checkpoint that is written, and delete those that it makes needless, but for `best`."""
        assert self._under_way is None, "one at a time"
        self._beside = self._beside or ThreadPoolExecutor(1, thread_name_prefix="sealing")
        self._under_way = self._beside.submit(self._seal, checkpoint, best)

    def settle(self) -> None:
        """Wait until what has begun is done."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def _seal(self, checkpoint: Path, best: Path | None) -> None:
        checkpoints.seal(checkpoint)
        self._context.events.emit("checkpoint", step=checkpoints.step_of(checkpoint))
        checkpoints.prune(self._context.checkpoints, self._keep, also=best)
