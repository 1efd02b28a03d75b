"""Collective operations over the processes of a step. With one process, they return the local value.

Every decision that affects control flow goes through here, so that no process continues while another stops.
"""

import os
from collections.abc import Mapping
from typing import Any, TypeVar

Value = TypeVar("Value")


def rank() -> int:
    """Return the rank of this process. Rank 0 writes the record and the product."""
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_rank_zero() -> bool:
    return rank() == 0


def broadcast(value: Value) -> Value:
    """Return the value of rank 0 in all processes."""
    if world_size() == 1:
        return value
    import torch.distributed as distributed

    shared: list[Any] = [value]
    distributed.broadcast_object_list(shared, src=0)
    return shared[0]


def all_reduce_any(flag: bool) -> bool:
    """Return whether the flag is true in any process."""
    return any(all_gather(flag))


def all_reduce_mean(values: Mapping[str, float]) -> dict[str, float]:
    """Return the mean of each metric over the processes that have it."""
    if world_size() == 1:
        return dict(values)
    gathered = all_gather(dict(values))
    names = dict.fromkeys(name for one in gathered for name in one)
    return {name: _mean([one[name] for one in gathered if name in one]) for name in names}


def barrier() -> None:
    """Wait until all processes have called this."""
    if world_size() > 1:
        import torch.distributed as distributed

        distributed.barrier()


def all_gather(value: Value) -> list[Value]:
    """Return the values of all processes, in the order of their ranks."""
    if world_size() == 1:
        return [value]
    import torch.distributed as distributed

    gathered: list[Any] = [None] * world_size()
    distributed.all_gather_object(gathered, value)
    return gathered


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
