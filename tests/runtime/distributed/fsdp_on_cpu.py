"""FSDP2 on a CPU: torch divides the weights over gloo as it does over NCCL.

accelerate takes FSDP for GPUs alone. Told that these processes have GPUs, it does everything else as there:
wraps, clips, gathers, writes divided checkpoints and reads them back. What that leaves out is CUDA itself.
"""

import os
from pathlib import Path

import pytest
from tests.runtime.methods.stage_harness import compile_plan, recipe

from posttrain.runtime.runners.process import ProcessRunner

# Python reads this module, if it finds one, before anything else.
_FAKE_GPU_SITECUSTOMIZE = """\
from accelerate.state import DistributedType, PartialState

made = PartialState.__init__

def init(self, *given, **named):
    made(self, *given, **named)
    if self._shared_state.get("distributed_type") == DistributedType.MULTI_CPU:
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU

PartialState.__init__ = init
"""


def fsdp_on_cpu_runner(folder: Path) -> ProcessRunner:
    """A runner whose workers take themselves to be on GPUs."""
    (folder / "sitecustomize.py").write_text(_FAKE_GPU_SITECUSTOMIZE)
    runner = ProcessRunner()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *_accelerate_environment()]))
        runner.prepare(compile_plan(recipe()), ["sft"], folder)
    return runner


def _accelerate_environment() -> list[str]:
    return [path for path in [os.environ.get("PYTHONPATH")] if path]
