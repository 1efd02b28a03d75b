"""Parameters that are left out of the key, because they do not change the trained weights."""

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, metrics, recipe

from posttrain.runtime.catalog import CATALOG
from posttrain.spec.extension import Method

# Whether the result of a method with these parameters is independent of micro_batch_size.
MICRO_BATCH = [
    ("sft", "", True),
    ("dpo", "", True),
    ("ipo", "", True),
    ("simpo", "", True),
    ("reward_model", "", True),
    ("kto", "", False),
    ("kto", ", loss_type: apo_zero_unpaired", True),
    ("cpo", "", False),
    ("cpo", ", cpo_alpha: 0.0", True),
    ("orpo", "", False),
]


def stage_recipe(method: str, more: str) -> str:
    params = f"params: {{max_steps: 3, batch_size: 8, learning_rate: 1.0e-2{more}}}"
    return recipe(f"it: {{train: {method}, model: sft, data: sums.train, {params}}}")


@pytest.mark.parametrize(("method", "more", "neutral"), MICRO_BATCH)
def test_the_micro_batch_is_in_the_key_where_the_loss_looks_across_it(
    method: str, more: str, neutral: bool
) -> None:
    keys = [
        compile_plan(stage_recipe(method, more + micro)).step("it").key
        for micro in ("", ", micro_batch_size: 4")
    ]
    assert (keys[0] == keys[1]) is neutral


@pytest.mark.parametrize(("dropout", "neutral"), [(0.0, True), (0.1, False)])
def test_the_micro_batch_is_in_the_key_if_an_adapter_has_dropout(dropout: float, neutral: bool) -> None:
    adapter = f"adapter: {{r: 4, lora_dropout: {dropout}}}, params:"
    keys = [
        compile_plan(stage_recipe("sft", micro).replace("params:", adapter)).step("it").key
        for micro in ("", ", micro_batch_size: 4")
    ]
    assert (keys[0] == keys[1]) is neutral


@pytest.mark.parametrize("switch", ["use_liger_kernel", "torch_compile"])
def test_other_kernels_are_in_the_key_only_where_they_are_used(switch: str) -> None:
    keys = [compile_plan(stage_recipe("dpo", more)).step("it").key for more in ("", f", {switch}: true")]
    assert keys[0] != keys[1]
    method = CATALOG.find("method", "dpo")
    assert isinstance(method, Method)
    assert switch in method.neutral(method.params())  # disabled, the option does not change the key


@pytest.mark.parametrize("name", CATALOG.names("method"))
def test_how_often_checkpoints_are_written_is_never_in_the_key(name: str) -> None:
    method = CATALOG.find("method", name)
    assert isinstance(method, Method)
    needed = {"max_steps": 1} if method.needs_reward else {}
    assert {"save_steps", "save_total_limit"} < set(method.neutral(method.params(**needed)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "more"), [("kto", ", loss_type: apo_zero_unpaired"), ("cpo", ", cpo_alpha: 0.0")]
)
def test_micro_batches_learn_what_the_batch_does(method: str, more: str, bench: StageHarness) -> None:
    found = list[list[float]]()
    for micro in ("", ", micro_batch_size: 4"):
        plan = compile_plan(stage_recipe(method, more + micro))
        bench.reset_step(
            plan.step("it")
        )  # the key is the same, so the product of the other run would be a cache hit
        found.append(metrics(bench.run_step(plan, plan.step("it")), "loss"))
    assert len(found[0]) == 3
    assert found[1] == pytest.approx(found[0], rel=1e-4)
