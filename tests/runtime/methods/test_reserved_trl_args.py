"""Arguments that posttrain passes to TRL cannot be set under `trl:`."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, recipe

from posttrain.compiler.checks.reserved_trl_args import reserved_args
from posttrain.compiler.checks.trl_args import config_arguments
from posttrain.runtime.catalog import CATALOG, load_entry
from posttrain.runtime.training.training_loop import TrainingLoop
from posttrain.runtime.worker import create_context
from posttrain.spec.extension import Method

pytestmark = pytest.mark.slow

# Defaults that the recipe can override.
YIELDING = {"dataloader_num_workers", "dataloader_pin_memory"}
_ROWS = "params: {max_steps: 2, batch_size: 8%s}"
_PROMPTS = (
    "reward: solution, params: {max_steps: 2, num_prompts: 4, num_generations: 4, max_completion_length: 6,"
    " beta: 0.1%s}"
)
_MOVING = ", ref_model_sync_steps: 1"
STAGES = {
    "sft": _ROWS % "",
    "reward_model": _ROWS % "",
    "dpo": _ROWS % _MOVING,
    "ipo": _ROWS % _MOVING,
    "kto": _ROWS % _MOVING,
    "orpo": _ROWS % "",
    "cpo": _ROWS % "",
    "simpo": _ROWS % "",
    "grpo": _PROMPTS % _MOVING,
    "rloo": _PROMPTS % _MOVING,
}


class Seen(Exception):
    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = arguments


@pytest.mark.parametrize("name", STAGES)
def test_the_arguments_of_a_method_are_owned(
    name: str, bench: StageHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = compile_plan(recipe(f"it: {{train: {name}, model: sft, data: sums.train, {STAGES[name]}}}"))
    step = plan.step("it")
    bench.prepare_step(plan, step)
    real = TrainingLoop.arguments

    def spied(loop: TrainingLoop, own: dict[str, Any]) -> dict[str, Any]:
        raise Seen(real(loop, own))

    monkeypatch.setattr(TrainingLoop, "arguments", spied)
    with pytest.raises(Seen) as seen:
        load_entry(step.entry)(create_context(bench.work(step)))
    method = CATALOG.find("method", name)
    assert isinstance(method, Method)
    assert method.trl is not None
    given = set(seen.value.arguments)
    assert given - YIELDING <= reserved_args(method.trl)
    assert given <= set(config_arguments(method.trl))


def test_every_method_on_trl_is_held_to_this() -> None:
    on_trl = {
        name
        for name in CATALOG.names("method")
        if isinstance(method := CATALOG.find("method", name), Method) and method.trl is not None
    }
    assert on_trl == set(STAGES)
