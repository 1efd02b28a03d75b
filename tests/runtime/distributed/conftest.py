"""The bench of the methods' tests, with a store of its own."""

from tests.runtime.methods.conftest import bench, runner

__all__ = ["bench", "runner"]
