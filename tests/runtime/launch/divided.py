"""FSDP2 on a CPU: torch divides the weights over gloo as it does over NCCL.

accelerate takes FSDP for GPUs alone. Told that these processes have GPUs, it does everything else as there:
wraps, clips, gathers, writes divided checkpoints and reads them back. What that leaves out is CUDA itself.
"""

import os
from pathlib import Path

import pytest
from tests.runtime.methods.workbench import compiled, recipe

from posttrain.runtime.runners.process import ProcessRunner

# Python reads this module, if it finds one, before anything else.
_AS_IF_ON_GPUS = """\
from accelerate.state import DistributedType, PartialState

made = PartialState.__init__

def init(self, *given, **named):
    made(self, *given, **named)
    if self._shared_state.get("distributed_type") == DistributedType.MULTI_CPU:
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU

PartialState.__init__ = init
"""


def dividing_runner(folder: Path) -> ProcessRunner:
    """A runner whose workers take themselves to be on GPUs."""
    (folder / "sitecustomize.py").write_text(_AS_IF_ON_GPUS)
    runner = ProcessRunner()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *_given()]))
        runner.expect(compiled(recipe()), ["sft"], folder)
    return runner


def _given() -> list[str]:
    return [path for path in [os.environ.get("PYTHONPATH")] if path]
