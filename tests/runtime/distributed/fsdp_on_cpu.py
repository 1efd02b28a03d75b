"""FSDP2 on a CPU: torch shards the weights over gloo as it does over NCCL.

accelerate supports FSDP only on GPUs. Here accelerate is patched to assume GPUs, and then wraps, clips,
gathers, and saves and loads sharded checkpoints as usual. Only CUDA itself is not covered.
"""

import os
from pathlib import Path

import pytest
from tests.runtime.methods.stage_harness import compile_plan, recipe

from posttrain.runtime.runners.process import ProcessRunner

# Python imports a module of this name at startup.
FAKE_GPU_SITECUSTOMIZE = """\
from accelerate.state import DistributedType, PartialState

made = PartialState.__init__

def init(self, *given, **named):
    made(self, *given, **named)
    if self._shared_state.get("distributed_type") == DistributedType.MULTI_CPU:
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU

PartialState.__init__ = init
"""


def fsdp_on_cpu_runner(folder: Path) -> ProcessRunner:
    """A harness whose workers assume that they run on GPUs."""
    (folder / "sitecustomize.py").write_text(FAKE_GPU_SITECUSTOMIZE)
    runner = ProcessRunner()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *_accelerate_environment()]))
        runner.prepare(compile_plan(recipe()), ["sft"], folder)
    return runner


def _accelerate_environment() -> list[str]:
    return [path for path in [os.environ.get("PYTHONPATH")] if path]
