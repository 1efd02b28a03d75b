"""A preloaded process and a store that all tests of benchmarks share. They require lm-eval."""

from importlib.util import find_spec

import pytest
from tests.conftest import require_service
from tests.runtime.methods.conftest import bench, runner

__all__ = ["bench", "runner"]


@pytest.fixture(scope="session", autouse=True)
def lm_eval() -> None:
    require_service("lm-eval", find_spec("lm_eval"), "pip install 'posttrain[benchmarks]'")
