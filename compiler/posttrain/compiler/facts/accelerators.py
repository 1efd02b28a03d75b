"""Accelerators by name: memory, speed and a rough price.

`memory` is what the driver reports, a little below the number on the box. Prices are what
marketplaces asked for on demand when the table was written: the order of magnitude is the point,
and a recipe's hardware may say its own.
"""

import functools
from typing import Literal, NamedTuple

from posttrain.compiler.facts.tables import table

MIB = 1024**2
GIB = 1024**3


class Device(NamedTuple):
    """One accelerator, or one CPU machine."""

    name: str
    memory: int  # bytes
    tflops: float  # dense bf16
    gb_per_s: float  # memory bandwidth
    dollars_per_hour: float
    kind: Literal["gpu", "cpu"] = "gpu"
    maker: str = "nvidia"


@functools.cache
def accelerator(name: str) -> Device | None:
    """A device by any of the names it goes by, whatever their case."""
    wanted = _plain(name)
    for key, row in table("accelerators").items():
        if wanted in (_plain(key), *map(_plain, row["also"])):
            return Device(
                name=key,
                memory=row["memory_mib"] * MIB,
                tflops=row["tflops"],
                gb_per_s=row["gb_per_s"],
                dollars_per_hour=row["dollars_per_hour"],
                kind=row.get("kind", "gpu"),
                maker=row.get("maker", "nvidia"),
            )
    return None


def accelerators() -> tuple[str, ...]:
    return tuple(table("accelerators"))


def _plain(name: str) -> str:
    return "".join(c for c in name.lower().removeprefix("nvidia") if c.isalnum())
