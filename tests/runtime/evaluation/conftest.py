"""One warm process and one store for the tests of evals and generation."""

from tests.runtime.methods.conftest import bench, runner

__all__ = ["bench", "runner"]
