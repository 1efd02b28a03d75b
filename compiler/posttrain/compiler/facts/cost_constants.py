"""The constants of the estimates of time and memory: one table, with the source of each value.

`cost_constants.json` has a value of every constant for all GPUs, values for CPUs, and under `cards` the
values of single cards, by their name in `accelerators.json`. The most specific value applies. A measurement
on a card (`perf/cuda`) is a row under `cards` whose source names its page.
"""

import functools
from typing import Any, NamedTuple

from posttrain.compiler.facts.accelerators import GIB, Device
from posttrain.compiler.facts.fact_tables import load_table


class Bounds(NamedTuple):
    """A value as a range."""

    worst: float
    best: float


class CostConstants(NamedTuple):
    # Model FLOPs utilization (MFU): the share of the peak speed in training, and in forward passes.
    mfu_full: Bounds
    mfu_lora: Bounds
    mfu_qlora: Bounds
    mfu_forward: Bounds
    bandwidth_utilization: Bounds  # the share of the memory bandwidth while decoding
    # Seconds to launch the kernels of one layer: forward and backward pass of a micro-batch, a decoded token.
    layer_launch_seconds: Bounds
    layer_decode_seconds: Bounds  # by transformers
    layer_decode_seconds_vllm: Bounds
    process_start_seconds: Bounds  # before the first step, without the weights
    disk_bytes_per_second: Bounds
    # Bandwidth of a collective operation in one direction, for each device: within a node, between nodes.
    link_bytes_per_second: Bounds
    network_bytes_per_second: Bounds
    context_bytes: float  # of a process: the CUDA context, or on a CPU Python with its libraries
    nccl_bytes: float
    nccl_network_bytes: float  # in addition, with several nodes
    allocator_slack: float  # of temporary memory
    vllm_graph_bytes: float
    vllm_asleep_bytes: float


_IN_GIB = {
    "context_bytes": "context_gib",
    "nccl_bytes": "nccl_gib",
    "nccl_network_bytes": "nccl_network_gib",
    "vllm_graph_bytes": "vllm_graphs_gib",
    "vllm_asleep_bytes": "vllm_asleep_gib",
}


def cost_constants(device: Device) -> CostConstants:
    return _find_constants(device.name, device.kind)


@functools.cache
def _find_constants(name: str, kind: str) -> CostConstants:
    table = load_table("cost_constants")
    rows = {**table["gpu"], **(table["cpu"] if kind == "cpu" else {}), **table["cards"].get(name, {})}
    return CostConstants(**{field: _value(rows, field) for field in CostConstants._fields})


def _value(rows: dict[str, Any], field: str) -> Any:
    if field in _IN_GIB:
        return rows[_IN_GIB[field]]["value"] * GIB
    found = rows[field]["value"]
    return Bounds(*found) if isinstance(found, list) else found
