"""A preloaded process and a store that all tests of evals and generation share."""

from tests.runtime.methods.conftest import bench, runner

__all__ = ["bench", "runner"]
