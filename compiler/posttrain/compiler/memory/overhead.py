"""The memory overhead of every process. The values are not derived: `facts/cost_constants.json` has them."""

from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.facts.cost_constants import cost_constants
from posttrain.compiler.memory.memory_terms import MemoryTerm, memory_term
from posttrain.compiler.memory.workload import Workload


def overhead_terms(
    workload: Workload, device: Device, terms: tuple[MemoryTerm, ...]
) -> tuple[MemoryTerm, ...]:
    constants = cost_constants(device)
    if device.kind == "cpu":
        return (memory_term("process", constants.context_bytes, "Python and torch"),)
    slack = constants.allocator_slack
    passing = sum(t.bytes for t in terms if t.transient)
    return (
        memory_term("CUDA context", constants.context_bytes, "driver, kernels, cuBLAS"),
        memory_term("collectives", _collective_bytes(workload, device), "NCCL buffers"),
        memory_term("allocator slack", slack * passing, f"{slack:.0%} of temporary memory"),
    )


def _collective_bytes(workload: Workload, device: Device) -> float:
    constants = cost_constants(device)
    network = constants.nccl_network_bytes if workload.nodes > 1 else 0
    return constants.nccl_bytes + network if workload.gpus > 1 else 0
