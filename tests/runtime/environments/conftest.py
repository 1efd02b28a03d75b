"""A preloaded process and a store that all tests of environments share."""

from collections.abc import Iterator

import pytest
from tests.runtime.environments.episode_recipe import episode_recipe
from tests.runtime.methods.stage_harness import StageHarness, compile_plan

from posttrain.runtime.runners.process import ProcessRunner


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessRunner]:
    runner = ProcessRunner()
    runner.prepare(compile_plan(episode_recipe()), ["grpo"], tmp_path_factory.mktemp("warm"))
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory, runner: ProcessRunner) -> StageHarness:
    return StageHarness(tmp_path_factory.mktemp("bench"), runner)
