"""A killed training stage resumes and produces a byte-identical product, for every method.

Each stage runs once without interruption, and once with a SIGKILL after a checkpoint in its second epoch.
Every file of the product must be identical. docs/resume.md documents this table.
"""

import json

import pytest
from perf import resume as measured
from perf.resume_tables import MARKS, PAGE, STRATEGIES, tables
from tests.runtime.methods.stage_harness import StageHarness, compile_or_errors, compile_plan, recipe

from posttrain.runtime.catalog import CATALOG

pytestmark = pytest.mark.slow

# The 64 rows are four steps, so the killed run resumes from a checkpoint in its second epoch.
_ROWS = "max_steps: 12, learning_rate: 1.0e-3, batch_size: 16, max_length: 64, save_steps: 3"
_PROMPTS = (
    "max_steps: 12, num_prompts: 16, num_generations: 4, learning_rate: 1.0e-3, max_completion_length: 6,"
    " save_steps: 3"
)
_KILLED_AT = 6
_LORA = "lora: {train: sft, model: base, data: sums.train, adapter: {r: 4}, params: {max_steps: 4}}"


def rows(method: str, more: str = "", model: str = "sft", keys: str = "") -> str:
    return f"it: {{train: {method}, model: {model}, data: sums.train, {keys} params: {{{_ROWS}{more}}}}}"


def prompts(method: str, more: str = "", model: str = "sft", keys: str = "") -> str:
    return (
        f"it: {{train: {method}, model: {model}, data: sums.train, reward: solution, {keys}"
        f" params: {{{_PROMPTS}{more}}}}}"
    )


def written(more: str = "num_ppo_epochs: 2", model: str = "sft", keys: str = "") -> str:
    params = "max_steps: 12, batch_size: 16, learning_rate: 1.0e-3, max_completion_length: 6, save_steps: 3"
    return (
        f"it: {{train: ppo, model: {model}, data: sums.train, reward: solution, {keys}"
        f" params: {{{params}, {more}}}}}"
    )


CASES = {
    "sft": rows("sft", model="base"),
    "sft, micro-batches": rows("sft", ", micro_batch_size: 4", model="base"),
    "sft, packed": rows("sft", ", packing: true, loss_on: all", model="base"),
    "sft, a new adapter with dropout": rows("sft", keys="adapter: {r: 4, lora_dropout: 0.1},"),
    "sft, `existing_adapter: continue`": rows("sft", model="lora"),
    "sft, `use_dora`, `init_lora_weights: pissa`, `modules_to_save`": rows(
        "sft", keys="adapter: {r: 4, use_dora: true, init_lora_weights: pissa, modules_to_save: [lm_head]},"
    ),
    "sft, `init_lora_weights: pissa_niter_4`": rows(
        "sft", keys="adapter: {r: 4, init_lora_weights: pissa_niter_4},"
    ),
    "sft, `init_lora_weights: olora`": rows("sft", keys="adapter: {r: 4, init_lora_weights: olora},"),
    "sft, `loraplus_lr_ratio`": rows("sft", keys="adapter: {r: 4, loraplus_lr_ratio: 16},"),
    "sft, `rank_pattern`, `layers_to_transform`, `bias: all`": rows(
        "sft", keys="adapter: {r: 4, rank_pattern: {q_proj: 8}, layers_to_transform: [0], bias: all},"
    ),
    "sft, `trainable_token_indices`": rows(
        "sft", keys="adapter: {r: 4, trainable_token_indices: added, modules_to_save: [lm_head]},"
    ),
    "sft, `type: ia3`": rows("sft", keys="adapter: {type: ia3},"),
    "sft, `type: oft`": rows("sft", keys="adapter: {type: oft, oft_block_size: 8, module_dropout: 0.1},"),
    "sft, `type: vera`": rows("sft", keys="adapter: {type: vera, r: 8, vera_dropout: 0.1},"),
    "sft, `freeze`": rows("sft", keys="adapter: {type: full, freeze: ['*embed_tokens*', '*norm*']},"),
    "reward_model": rows("reward_model"),
    "reward_model, a new adapter": rows("reward_model", keys="adapter: {r: 4},"),
    "dpo": rows("dpo"),
    "dpo, `ref_model_sync_steps`": rows("dpo", ", ref_model_sync_steps: 2"),
    "dpo, `existing_adapter: continue`": rows("dpo", model="lora"),
    "dpo, `existing_adapter: merge`": rows("dpo", model="lora", keys="adapter: {existing_adapter: merge},"),
    "dpo, `type: oft`": rows("dpo", keys="adapter: {type: oft, oft_block_size: 8},"),
    "dpo, `init_lora_weights: pissa`, `reference`": rows(
        "dpo", keys="adapter: {r: 4, init_lora_weights: pissa}, reference: sft,"
    ),
    "ipo": rows("ipo"),
    "kto": rows("kto"),
    "kto, `existing_adapter: continue`": rows("kto", model="lora"),
    "orpo": rows("orpo"),
    "cpo": rows("cpo"),
    "simpo": rows("simpo"),
    "grpo": prompts("grpo"),
    "grpo, `num_iterations`, `optimizer_steps_per_generation`": prompts(
        "grpo", ", num_iterations: 2, optimizer_steps_per_generation: 2, micro_batch_size: 32"
    ),
    "grpo, `ref_model_sync_steps`": prompts("grpo", ", beta: 0.1, ref_model_sync_steps: 2"),
    "grpo, `existing_adapter: continue`": prompts("grpo", ", beta: 0.1", model="lora"),
    "grpo, `type: ia3`": prompts("grpo", ", beta: 0.1", keys="adapter: {type: ia3},"),
    "rloo": prompts("rloo"),
    "rloo, `num_iterations`, `optimizer_steps_per_generation`": prompts(
        "rloo", ", num_iterations: 2, optimizer_steps_per_generation: 2"
    ),
    "ppo": written(),
    "ppo, `num_mini_batches`, `num_ppo_epochs`": written(
        "num_mini_batches: 2, num_ppo_epochs: 2, micro_batch_size: 4, kl_target: 1.0"
    ),
    "ppo, `value_model: shared`": written("value_model: shared, entropy_coef: 1.0e-2"),
    "ppo, a new adapter with dropout": written(keys="adapter: {r: 4, lora_dropout: 0.1},"),
    "ppo, `existing_adapter: continue`": written("on_constant_reward: warn", model="lora"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_killed_stage_ends_with_the_same_bytes(case: str, bench: StageHarness) -> None:
    plan = compile_plan(recipe(_LORA, CASES[case]))
    step = plan.step("it")
    bench.reset_step(step)  # micro_batch_size is not in the key: another case may have created this product
    undisturbed = bench.run_step(plan, step).content_digest
    bench.reset_step(step)

    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=_KILLED_AT)
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    resumed = [event["step"] for event in bench.events(step) if event["kind"] == "resumed"]
    assert resumed
    assert resumed[0] >= _KILLED_AT
    assert bench.commit(step).content_digest == undisturbed


def test_the_documentation_has_this_table() -> None:
    lines = PAGE.read_text().partition("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")][1:]
    documented = {f"{method}, {how}".removesuffix(", all weights"): exact for method, how, exact in rows}
    assert documented == dict.fromkeys(CASES, "yes")


def test_the_documentation_has_what_was_measured_under_every_strategy() -> None:
    record = json.loads(measured.RECORD.read_text())
    documented = PAGE.read_text().partition(MARKS[0])[2].partition(MARKS[1])[0]
    assert documented.strip().splitlines() == tables(record, measured.CASES)
    assert set(CATALOG.names("method")) <= record.keys() == measured.CASES.keys()
    for case, cells in record.items():
        refused = {one for one in STRATEGIES if compile_or_errors(measured.recipe_text(case, one))[0] is None}
        assert {one: cells[one]["exact"] for one in STRATEGIES} == {
            one: "refused" if one in refused else "yes" for one in STRATEGIES
        }


# An untrained model: the trainer must still align its configuration with the tokenizer.
AT_THE_END = {
    "dpo": rows("dpo", ", save_total_limit: 3"),
    "sft": rows("sft", model="base"),
    "sft, a new adapter": rows("sft", model="base", keys="adapter: {r: 4},"),
    "grpo": prompts("grpo", model="base"),
    "ppo": written("on_constant_reward: warn", model="base"),
}


@pytest.mark.parametrize("case", AT_THE_END)
def test_a_stage_killed_after_its_last_step_has_only_its_product_to_write(
    case: str, bench: StageHarness
) -> None:
    plan = compile_plan(recipe(_LORA, AT_THE_END[case]))
    step = plan.step("it")
    bench.reset_step(step)
    undisturbed = bench.run_step(plan, step).content_digest
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0
    (bench.work(step) / "receipt.json").unlink()  # as if the stage had been killed just before it saved this

    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert [e["step"] for e in bench.events(step) if e["kind"] == "resumed"] == [12]
    assert bench.commit(step).content_digest == undisturbed
