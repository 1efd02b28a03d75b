"""The tracer of the memory tests and the strategies of the tests with several processes."""

from tests.compiler.memory.conftest import tracer
from tests.runtime.distributed.test_multi_process import strategy

__all__ = ["strategy", "tracer"]
