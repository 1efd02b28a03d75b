"""One warm process and one store for all tests of training methods."""

from collections.abc import Iterator

import pytest
from tests.runtime.methods.workbench import Bench, compiled, recipe

from posttrain.runtime.runners.process import ProcessRunner


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessRunner]:
    runner = ProcessRunner()
    runner.expect(compiled(recipe()), ["sft"], tmp_path_factory.mktemp("warm"))
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory, runner: ProcessRunner) -> Bench:
    """One store for the whole session: what several tests begin with is made once."""
    return Bench(tmp_path_factory.mktemp("bench"), runner)
