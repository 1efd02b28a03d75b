"""What posttrain passes to TRL by itself cannot be given under `trl:` as well."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.runtime.methods.workbench import Bench, compiled, recipe

from posttrain.compiler.checks.owned import owned
from posttrain.compiler.checks.trl import arguments_of
from posttrain.runtime.catalog import CATALOG, load
from posttrain.runtime.training.loop import Loop
from posttrain.runtime.worker import prepare
from posttrain.spec.extension import Method

pytestmark = pytest.mark.slow

# Set where the recipe says nothing, and left to it where it does.
YIELDING = {"dataloader_num_workers", "dataloader_pin_memory"}
_ROWS = "params: {steps: 2, batch: 8%s}"
_PROMPTS = "reward: solution, params: {steps: 2, prompts: 4, generations: 4, max_tokens: 6, beta: 0.1%s}"
_MOVING = ", reference_every: 1"
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
    name: str, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = compiled(recipe(f"it: {{train: {name}, model: sft, data: sums.train, {STAGES[name]}}}"))
    step = plan.step("it")
    bench.lay_out(plan, step)
    real = Loop.arguments

    def spied(loop: Loop, own: dict[str, Any]) -> dict[str, Any]:
        raise Seen(real(loop, own))

    monkeypatch.setattr(Loop, "arguments", spied)
    with pytest.raises(Seen) as seen:
        load(step.entry)(prepare(bench.work(step)))
    method = CATALOG.find("method", name)
    assert isinstance(method, Method)
    assert method.trl is not None
    given = set(seen.value.arguments)
    assert given - YIELDING <= owned(method.trl)
    assert given <= set(arguments_of(method.trl))


def test_every_method_on_trl_is_held_to_this() -> None:
    on_trl = {
        name
        for name in CATALOG.names("method")
        if isinstance(method := CATALOG.find("method", name), Method) and method.trl is not None
    }
    assert on_trl == set(STAGES)
