"""The harness of the method tests with its own store, and the tracer of the memory tests."""

from tests.compiler.memory.conftest import tracer
from tests.runtime.distributed.test_multi_process import strategy
from tests.runtime.methods.conftest import bench, runner

__all__ = ["bench", "runner", "strategy", "tracer"]
