"""The harness of the methods' tests, with a store of its own, and the tracer of the memory's."""

from tests.compiler.memory.conftest import tracer
from tests.runtime.distributed.test_multi_process import strategy
from tests.runtime.methods.conftest import bench, runner

__all__ = ["bench", "runner", "strategy", "tracer"]
