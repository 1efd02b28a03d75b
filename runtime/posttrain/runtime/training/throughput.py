"""What the steps of a training stage take: time, rows and tokens a second, memory."""

import time
from collections.abc import Mapping
from typing import Any


class Throughput:
    """Measures one step after the other. Evaluations and checkpoints between them do not count."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._began = 0.0
        self._seconds = 0.0
        self._tokens: float | None = None

    def start_step(self) -> None:
        self._began = time.monotonic()

    def end_step(self) -> None:
        self._seconds += time.monotonic() - self._began

    def pop_metrics(self, logs: Mapping[str, Any]) -> dict[str, float]:
        """The figures of the steps since the last call; `logs` are the trainer's own."""
        seconds, self._seconds = self._seconds, 0.0
        if seconds <= 0:
            return {}
        found = {"cost/step_seconds": seconds, "cost/memory_mb": _peak_memory_mb()}
        if self._rows:
            found["cost/rows_per_second"] = self._rows / seconds
        tokens = logs.get("num_tokens")
        if isinstance(tokens, int | float):
            if self._tokens is not None:
                found["cost/tokens_per_second"] = (tokens - self._tokens) / seconds
            self._tokens = tokens
        return found


def _peak_memory_mb() -> float:
    """The most memory held so far: a GPU's where one is in use, else this process's own."""
    import torch

    if torch.cuda.is_initialized():  # to ask whether there is one at all takes longer than all the rest
        return torch.cuda.max_memory_allocated() / (1 << 20)
    from posttrain.runtime.worker import peak_memory_mb

    return peak_memory_mb()
