"""What no model asks for and every process has. Measured habits, not derived: keep them small,
keep them named, and correct them here when a machine says otherwise."""

from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.memory.terms import GIB, Term, term
from posttrain.compiler.memory.workload import Workload

CONTEXT = 0.6 * GIB  # CUDA context, loaded kernels, cuBLAS workspaces
COLLECTIVES = 0.5 * GIB  # NCCL's channels and buffers
PROCESS = 1.0 * GIB  # Python with torch and transformers, on a machine without accelerator
SLACK = 0.05  # of what comes and goes: the allocator rounds up and fragments


def overhead(workload: Workload, device: Device, terms: tuple[Term, ...]) -> tuple[Term, ...]:
    if device.kind == "cpu":
        return (term("process", PROCESS, "Python and torch"),)
    passing = sum(t.bytes for t in terms if t.passing)
    return (
        term("CUDA context", CONTEXT, "driver, kernels, cuBLAS"),
        term("collectives", COLLECTIVES if workload.gpus > 1 else 0, "NCCL buffers"),
        term("allocator slack", SLACK * passing, f"{SLACK:.0%} of what comes and goes"),
    )
