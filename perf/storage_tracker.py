"""Counts the storages of tensors from their allocation to their release, on any device."""

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class StorageTracker(TorchDispatchMode):
    """Counts the bytes of all live storages, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        self.now = 0
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._on_allocate(leaf.untyped_storage())
        return result

    def _on_allocate(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self.alive:
            return
        self.alive[key] = storage.nbytes()
        weakref.finalize(storage, self._on_free, key)
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)

    def _on_free(self, key: int) -> None:
        self.now -= self.alive.pop(key, 0)

    def count(self, tensors: Iterable[torch.Tensor]) -> None:
        """Count tensors that were allocated outside this mode."""
        for tensor in tensors:
            self._on_allocate(tensor.untyped_storage())
