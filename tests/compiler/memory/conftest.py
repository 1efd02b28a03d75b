"""Provides the tracer of perf/memory_tracer.py as a fixture, so that tests and benchmark measure the same."""

import importlib
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tracer():
    folder = Path(__file__).parents[3] / "perf"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)  # as in a run of the benchmark
        return importlib.import_module("memory_tracer")
