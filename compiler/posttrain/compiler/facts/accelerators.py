"""Accelerators by name: memory, speed and an approximate price.

`memory` is what the driver reports, slightly less than the nominal size. Prices are on-demand prices of
marketplaces when the table was written and show the order of magnitude. A recipe can set its own price under
`hardware`.
"""

import functools
from typing import Literal, NamedTuple

from posttrain.compiler.facts.fact_tables import load_table

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
    vendor: str = "nvidia"


@functools.cache
def find_accelerator(name: str) -> Device | None:
    """Return a device by any of its names, ignoring case."""
    normalized = _normalize_name(name)
    for key, row in load_table("accelerators").items():
        if normalized in (_normalize_name(key), *map(_normalize_name, row["also"])):
            return Device(
                name=key,
                memory=row["memory_mib"] * MIB,
                tflops=row["tflops"],
                gb_per_s=row["gb_per_s"],
                dollars_per_hour=row["dollars_per_hour"],
                kind=row.get("kind", "gpu"),
                vendor=row.get("maker", "nvidia"),
            )
    return None


def accelerator_names() -> tuple[str, ...]:
    return tuple(load_table("accelerators"))


def _normalize_name(name: str) -> str:
    return "".join(c for c in name.lower().removeprefix("nvidia") if c.isalnum())
