"""The tracer of benchmarks/memory.py, as a fixture: tests measure what the benchmark measures."""

import importlib.util
from pathlib import Path

import pytest
from hypothesis import settings

# a slow machine is no failure
settings.register_profile("memory", deadline=None)
settings.load_profile("memory")


@pytest.fixture(scope="session")
def tracer():
    path = Path(__file__).parents[3] / "benchmarks" / "memory.py"
    spec = importlib.util.spec_from_file_location("memory_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
