"""One forkserver and one store for all tests that run stages."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, recipe

from posttrain.runtime.machine import installed_gpus
from posttrain.runtime.runners.process import ProcessRunner


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessRunner]:
    runner = ProcessRunner()
    runner.prepare(compile_plan(recipe()), ["sft"], tmp_path_factory.mktemp("warm"))
    if find_spec("deepspeed") and not installed_gpus():
        # Where it is installed, every training imports it. It may open GPUs, which forks could not use then.
        assert runner._forkserver is not None
        runner._forkserver.preload(["deepspeed"])
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory, runner: ProcessRunner) -> StageHarness:
    """One store for the whole session, so that shared stages run only once."""
    return StageHarness(tmp_path_factory.mktemp("bench"), runner)
