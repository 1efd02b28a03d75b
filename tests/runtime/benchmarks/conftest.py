"""The tests of benchmarks require lm-eval."""

from importlib.util import find_spec

import pytest
from tests.conftest import require_service


@pytest.fixture(scope="session", autouse=True)
def lm_eval() -> None:
    require_service("lm-eval", find_spec("lm_eval"), "pip install 'posttrain[benchmarks]'")
