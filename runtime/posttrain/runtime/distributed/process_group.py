"""The processes that work on one step, as each of them sees it. Alone, it agrees with itself.

What the processes decide together is decided here, so that none goes on where another stops.
"""

import os
from collections.abc import Mapping
from typing import Any, TypeVar

Value = TypeVar("Value")


def rank() -> int:
    """The number of this process; the first has the record and writes the product."""
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_rank_zero() -> bool:
    return rank() == 0


def broadcast(value: Value) -> Value:
    """The value of rank 0, for all processes."""
    if world_size() == 1:
        return value
    import torch.distributed as distributed

    shared: list[Any] = [value]
    distributed.broadcast_object_list(shared, src=0)
    return shared[0]


def all_reduce_any(flag: bool) -> bool:
    """Whether the flag is true in any process."""
    return flag if world_size() == 1 else any(_all_gather(flag))


def all_reduce_mean(values: Mapping[str, float]) -> dict[str, float]:
    """Metrics as means over the processes that have them."""
    if world_size() == 1:
        return dict(values)
    found = _all_gather(dict(values))
    names = dict.fromkeys(name for one in found for name in one)
    return {name: _mean([one[name] for one in found if name in one]) for name in names}


def barrier() -> None:
    """Wait until all processes are here."""
    if world_size() > 1:
        import torch.distributed as distributed

        distributed.barrier()


def _all_gather(value: Value) -> list[Value]:
    import torch.distributed as distributed

    found: list[Any] = [None] * world_size()
    distributed.all_gather_object(found, value)
    return found


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
