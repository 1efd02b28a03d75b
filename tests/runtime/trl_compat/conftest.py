"""The harness of the environment tests, with its own store."""

from tests.runtime.environments.conftest import bench, runner

__all__ = ["bench", "runner"]
