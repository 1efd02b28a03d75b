"""One forkserver and one store for all tests that run stages."""

from collections.abc import Iterator

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, recipe

from posttrain.runtime.runners.process import ProcessRunner


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessRunner]:
    runner = ProcessRunner()
    runner.prepare(compile_plan(recipe()), ["sft"], tmp_path_factory.mktemp("warm"))
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory, runner: ProcessRunner) -> StageHarness:
    """One store for the whole session, so that shared stages run only once."""
    return StageHarness(tmp_path_factory.mktemp("bench"), runner)
