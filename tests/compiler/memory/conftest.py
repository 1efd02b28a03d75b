"""The tracer of perf/memory_tracer.py, as a fixture: tests measure what the benchmark measures."""

import importlib
from pathlib import Path

import pytest
from hypothesis import settings

# a slow machine is no failure
settings.register_profile("memory", deadline=None)
settings.load_profile("memory")


@pytest.fixture(scope="session")
def tracer():
    folder = Path(__file__).parents[3] / "perf"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)  # as it is when the benchmark is run
        return importlib.import_module("memory_tracer")
