"""The harness of the method tests, with its own store."""

from tests.runtime.methods.conftest import bench, runner

__all__ = ["bench", "runner"]
