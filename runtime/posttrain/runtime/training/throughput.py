"""Measures the throughput of a training stage: step time, rows and tokens per second, and peak memory."""

import time
from collections.abc import Mapping
from typing import Any


class Throughput:
    """Measures optimizer steps. Evaluations and checkpoints between the steps are excluded."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._began = 0.0
        self._seconds = 0.0
        self._tokens: float = 0

    def start(self, tokens: float) -> None:
        """Start at the tokens that the trainer has counted: not 0 where the checkpoint of a resumed stage has
        its count."""
        self._tokens = tokens

    def start_step(self) -> None:
        self._began = time.monotonic()

    def end_step(self) -> None:
        _wait_for_gpu()
        self._seconds += time.monotonic() - self._began

    def pop_metrics(self, logs: Mapping[str, Any]) -> dict[str, float]:
        """Return the metrics of the steps since the last call; `logs` are the trainer's logs."""
        seconds, self._seconds = self._seconds, 0.0
        if seconds <= 0:
            return {}
        metrics = {"cost/step_seconds": seconds, "cost/memory_mb": _peak_memory_mb()}
        if self._rows:
            metrics["cost/rows_per_second"] = self._rows / seconds
        tokens = logs.get("num_tokens")
        if isinstance(tokens, int | float) and tokens >= self._tokens:
            metrics["cost/tokens"] = tokens - self._tokens
            metrics["cost/tokens_per_second"] = metrics["cost/tokens"] / seconds
            self._tokens = tokens
        return metrics


def _wait_for_gpu() -> None:
    """Wait for the kernels of the step, which the CPU has only launched. The logs of the step, which read its
    loss, would wait for them next."""
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _peak_memory_mb() -> float:
    """Return the peak memory in MiB: of the GPU if one is in use, else of this process."""
    import torch

    if torch.cuda.is_initialized():  # is_available() would be slow
        return torch.cuda.max_memory_allocated() / (1 << 20)
    from posttrain.runtime.worker import peak_memory_mb

    return peak_memory_mb()
