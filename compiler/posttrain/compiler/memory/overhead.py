"""The memory overhead of every process. The values are measured, not derived: correct them here if a
measurement differs."""

from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.memory.memory_terms import GIB, MemoryTerm, memory_term
from posttrain.compiler.memory.workload import Workload

CUDA_CONTEXT_BYTES = 0.6 * GIB  # CUDA context, loaded kernels, cuBLAS workspaces
NCCL_BYTES = 0.5 * GIB  # NCCL channels and buffers
CPU_PROCESS_BYTES = 1.0 * GIB  # Python with torch and transformers, on a machine without an accelerator
ALLOCATOR_SLACK = 0.05  # of temporary memory: the allocator rounds up and fragments


def overhead_terms(
    workload: Workload, device: Device, terms: tuple[MemoryTerm, ...]
) -> tuple[MemoryTerm, ...]:
    if device.kind == "cpu":
        return (memory_term("process", CPU_PROCESS_BYTES, "Python and torch"),)
    passing = sum(t.bytes for t in terms if t.transient)
    return (
        memory_term("CUDA context", CUDA_CONTEXT_BYTES, "driver, kernels, cuBLAS"),
        memory_term("collectives", NCCL_BYTES if workload.gpus > 1 else 0, "NCCL buffers"),
        memory_term(
            "allocator slack", ALLOCATOR_SLACK * passing, f"{ALLOCATOR_SLACK:.0%} of temporary memory"
        ),
    )
