"""Tests placement: the choices, the settings of the recipe, the errors and the suggestions."""

import itertools
import re
from typing import Any

import pytest

from posttrain.compiler.pipeline import CompileResult, compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.diagnostic import Diagnostic
from posttrain.spec.plan import Step

RECIPE = """
recipe: 1
name: placed
hardware: {hardware}
models:
  base: {{from: {model}, revision: 7ae557604adf67be50417f59c2c2f167def9a775}}
datasets:
  sums:
    from: {{arithmetic: {{digits: 3, count: 64000}}}}
    steps:
      - derive: {{chosen: completion, rejected: "'7'"}}
rewards:
  right:
    reads: {{completion: text, answer: text}}
    returns: {{score: {{when: {{equal: {{of: completion, to: answer}}}}, then: 1.0}}}}
stages:
  it: {stage}
"""
SFT = "{train: sft, model: base, data: sums, params: {epochs: 1, batch_size: 64, max_length: 2048%s}%s}"
GRPO = (
    "{train: grpo, model: base, data: sums, reward: right,"
    " params: {max_steps: 100, num_prompts: 16, num_generations: 8, max_completion_length: 1024%s}%s}"
)
LORA = ", adapter: {type: lora, r: 16, lora_alpha: 32}"
ENGINES = ("transformers", "vllm")
METHODS = ("dpo", "ipo", "orpo", "cpo", "simpo", "reward_model")
QLORA = ", adapter: {type: qlora, r: 16, lora_alpha: 32}"


def compile_stage(
    stage: str, hardware: str = "{gpus: 8xH100-80GB}", model: str = "Qwen/Qwen3-8B"
) -> CompileResult:
    text = RECIPE.format(stage=stage, hardware=hardware, model=model)
    source = SourceFile("recipe.yaml", text.encode())
    return compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=dict[str, bytes]().get))


def placed_step(*args: str) -> Step:
    outcome = compile_stage(*args)
    assert outcome.plan is not None, [d.message for d in outcome.diagnostics]
    return outcome.plan.step("it")


def estimate_of(step: Step) -> dict[str, Any]:
    assert step.estimate is not None
    return dict(step.estimate)


def diagnostic_codes(outcome: CompileResult) -> list[str]:
    """Return the placement diagnostics; the reward of the recipe may be unused."""
    return [d.code for d in diagnostics_of(outcome)]


def diagnostics_of(outcome: CompileResult) -> list[Diagnostic]:
    return [d for d in outcome.diagnostics if d.code.startswith("PT10")]


def global_batch(step: Step) -> int:
    params = step.params["params"]
    return params["micro_batch_size"] * step.launch.processes


@pytest.mark.parametrize(
    ("stage", "hardware", "model", "strategy", "processes"),
    [
        (SFT % ("", ""), "{gpus: 1xA100-80GB}", "Qwen/Qwen2.5-0.5B", "single", 1),
        (SFT % ("", ""), "{gpus: 8xH100-80GB}", "Qwen/Qwen2.5-0.5B", "ddp", 8),
        (SFT % ("", ""), "{gpus: 8xH100-80GB}", "Qwen/Qwen3-8B", "zero2", 8),
        (SFT % ("", ""), "{gpus: 8xA100-40GB}", "Qwen/Qwen3-14B", "zero3", 8),
        (SFT % ("", LORA), "{gpus: 8xA100-40GB}", "Qwen/Qwen3-8B", "ddp", 8),
        (SFT % ("", QLORA), "{gpus: 4xL4-24GB}", "Qwen/Qwen3-8B", "ddp", 4),
        (SFT % ("", LORA), "{gpus: 4xH100-80GB, nodes: 2}", "Qwen/Qwen3-8B", "ddp", 8),
    ],
)
def test_the_cheapest_strategy_that_fits_is_taken(
    stage: str, hardware: str, model: str, strategy: str, processes: int
) -> None:
    step = placed_step(stage, hardware, model)
    assert (step.launch.strategy, step.launch.processes) == (strategy, processes)
    assert step.resources.gpus == processes
    estimate = estimate_of(step)
    assert 0 < estimate["memory_gb"] <= estimate["limit_gb"]
    assert 64 % global_batch(step) == 0, "the global batch is the recipe's own"


def test_what_the_recipe_gives_is_kept() -> None:
    step = placed_step(
        SFT
        % (
            ", micro_batch_size: 2, gradient_checkpointing: true, precision: float16",
            LORA + ", placement: {num_processes: 2, strategy: ddp}",
        )
    )
    params = step.params["params"]
    assert (params["micro_batch_size"], params["gradient_checkpointing"], params["precision"]) == (
        2,
        True,
        "float16",
    )
    assert (step.launch.processes, step.launch.strategy) == (2, "ddp")


def test_precision_follows_the_target() -> None:
    assert placed_step(SFT % ("", LORA)).params["params"]["precision"] == "bfloat16"
    assert placed_step(SFT % ("", LORA), "{cpus: 8}").params["params"]["precision"] == "float32"


def test_moving_to_other_gpus_leaves_the_key_alone() -> None:
    stage = SFT % ("", LORA)
    keys = {
        placed_step(stage, f"{{gpus: {gpus}}}").key for gpus in ("8xH100-80GB", "2xA100-40GB", "1xH200-141GB")
    }
    assert len(keys) == 1


def test_another_engine_writes_other_completions() -> None:
    own, other = (
        placed_step(GRPO % ("", LORA + f", placement: {{rollouts: {{engine: {e}}}}}")) for e in ENGINES
    )
    assert own.key != other.key
    assert own.launch.engine == "transformers"
    assert other.launch.rollouts["mode"] == "colocate"


def test_vllm_on_gpus_of_its_own_takes_them_from_the_training() -> None:
    server = ", placement: {rollouts: {engine: vllm, mode: server, gpus: 4}}"
    step = placed_step(GRPO % ("", LORA + server))
    assert step.launch.processes == 4
    assert step.resources.gpus == 8
    assert step.launch.rollouts["mode"] == "server"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{processes: 16}", "16 processes need 16 GPUs"),
        ("{processes: 3}", "does not divide"),
        ("{strategy: single, processes: 2}", "uses one process"),
        ("{strategy: zero2, processes: 1}", "needs more than one process"),
    ],
)
def test_a_placement_that_cannot_be_is_refused(given: str, message: str) -> None:
    outcome = compile_stage(SFT % ("", LORA + f", placement: {given}"))
    assert diagnostic_codes(outcome) == ["PT1002"]
    assert message in diagnostics_of(outcome)[0].message


def test_four_bit_weights_are_not_divided() -> None:
    outcome = compile_stage(SFT % ("", QLORA + ", placement: {strategy: zero3}"))
    assert diagnostic_codes(outcome) == ["PT1002"]


def test_a_stage_that_does_not_fit_names_terms_and_changes_that_fit() -> None:
    outcome = compile_stage(
        SFT % (", micro_batch_size: 8, gradient_checkpointing: false", ""), "{gpus: 1xL4-24GB}"
    )
    assert diagnostic_codes(outcome) == ["PT1005"]
    help = diagnostics_of(outcome)[0].help
    assert "weights" in help
    assert "optimizer" in help
    assert "changes that fit, the smallest first:" in help


def test_the_changes_that_are_named_do_fit() -> None:
    large = SFT % (", micro_batch_size: 16, gradient_checkpointing: false", LORA)
    target = ("{gpus: 1xA100-40GB}", "Qwen/Qwen3-4B")
    help = diagnostics_of(compile_stage(large, *target))[0].help
    said = re.search(r"micro-batch (\d+), accumulation", help)
    assert said is not None, help
    assert "gradient checkpointing" in help
    for changed in (f", micro_batch_size: {said[1]}", ", micro_batch_size: 16, gradient_checkpointing: true"):
        assert diagnostic_codes(compile_stage(SFT % (changed, LORA), *target)) == []


def test_a_micro_batch_is_named_as_the_recipe_writes_it() -> None:
    """A preference pair counts as one example, although it is two rows in memory."""
    pairs = (
        "{train: dpo, model: base, data: sums, params: {max_steps: 2, batch_size: 32, max_length: 4096%s}}"
    )
    target = ("{gpus: 1xH100-80GB}", "Qwen/Qwen3-1.7B")
    said = re.search(
        r"micro-batch (\d+), accumulation (\d+)",
        diagnostics_of(compile_stage(pairs % ", micro_batch_size: 32", *target))[0].help,
    )
    assert said is not None
    assert int(said[1]) * int(said[2]) == 32
    assert diagnostic_codes(compile_stage(pairs % f", micro_batch_size: {said[1]}", *target)) == []


def test_no_change_is_named_that_the_loss_does_not_take() -> None:
    whole = ", micro_batch_size: 32, loss_type: [sigmoid, sft], loss_weights: [1, 0.2]"
    pairs = (
        "{train: dpo, model: base, data: sums, params: {max_steps: 2, batch_size: 32, max_length: 4096%s}}"
    )
    help = diagnostics_of(compile_stage(pairs % whole, "{gpus: 1xH100-80GB}", "Qwen/Qwen3-1.7B"))[0].help
    assert "changes that fit" in help
    assert "micro-batch" not in help
    assert "2 GPUs" not in help


def test_gpus_that_stay_idle_are_said() -> None:
    stage = (SFT % ("", LORA)).replace("batch_size: 64", "batch_size: 12")
    assert diagnostic_codes(compile_stage(stage)) == ["PT1003"]
    meant = SFT.replace("batch_size: 64", "batch_size: 12") % ("", LORA + ", placement: {num_processes: 6}")
    assert diagnostic_codes(compile_stage(meant)) == []


def test_no_gpu_of_that_name() -> None:
    outcome = compile_stage(SFT % ("", LORA), "{gpus: 8xH10}")
    assert diagnostic_codes(outcome) == ["PT1001"]


def test_a_model_of_unknown_shape_is_planned_without_an_estimate() -> None:
    outcome = compile_stage(SFT % ("", LORA), "{gpus: 8xH100-80GB}", "someone/unknown")
    assert diagnostic_codes(outcome) == ["PT1004"]
    assert outcome.plan is not None
    assert outcome.plan.step("it").estimate is None


def test_the_price_is_the_recipes_own_where_it_says_one() -> None:
    step = placed_step(GRPO % ("", LORA), "{gpus: 8xH100-80GB, price_per_hour: 80}")
    estimate = estimate_of(step)
    assert estimate["dollars"] == pytest.approx(estimate["seconds"] * 80 / 3600, rel=0.01)
    assert estimate["seconds_min"] <= estimate["seconds"] <= estimate["seconds_max"]


@pytest.mark.parametrize(
    ("method", "gpus"),
    list(itertools.product(METHODS, ["1xA100-80GB", "8xH100-80GB"])),
)
def test_every_method_is_placed(method: str, gpus: str) -> None:
    stage = f"{{train: {method}, model: base, data: sums, params: {{epochs: 1, batch_size: 32}}{LORA}}}"
    step = placed_step(stage, f"{{gpus: {gpus}}}", "Qwen/Qwen3-4B")
    assert estimate_of(step)["memory_gb"] > 8


def test_a_method_whose_loss_spans_the_batch_stays_in_one_process() -> None:
    params = "{epochs: 1, batch_size: 8, loss_type: aot, max_length: 512}"
    stage = f"{{train: dpo, model: base, data: sums, params: {params}{LORA}}}"
    step = placed_step(stage, "{gpus: 8xH100-80GB}", "Qwen/Qwen2.5-0.5B")
    assert step.launch.processes == 1
    assert step.params["params"]["micro_batch_size"] == 8


def test_a_recipe_without_a_target_says_nothing_of_one() -> None:
    text = RECIPE.format(stage=SFT % ("", ""), hardware="{}", model="Qwen/Qwen3-8B").replace(
        "hardware: {}\n", ""
    )
    source = SourceFile("recipe.yaml", text.encode())
    outcome = compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=dict[str, bytes]().get))
    assert outcome.plan is not None
    step = outcome.plan.step("it")
    assert set(step.estimate or {}) == {"disk_gb", "checkpoints_gb"}
    assert (step.resources.gpus, step.params["params"]["precision"]) == (0, "float32")


@pytest.mark.parametrize("batch", [999_999_999_989, 10**15])
def test_a_batch_of_any_size_is_placed_in_no_time(batch: int) -> None:
    stage = (SFT % ("", LORA)).replace("batch_size: 64", f"batch_size: {batch}")
    assert placed_step(stage).launch.processes >= 1


def test_models_that_score_are_weighed() -> None:
    stage = GRPO % (", micro_batch_size: 1, gradient_checkpointing: true", LORA)
    text = RECIPE.format(stage=stage, hardware="{gpus: 8xH100-80GB}", model="Qwen/Qwen3-4B")
    scored = text.replace(
        "{score: {when: {equal: {of: completion, to: answer}}, then: 1.0}}",
        "{reward_model: {of: completion, model: judge}}",
    ).replace("models:\n", "models:\n  judge: {from: Qwen/Qwen3-8B}\n")
    found = [
        compile_recipe(
            CompileRequest(
                source=SourceFile("recipe.yaml", one.encode()), catalog=CATALOG, read=dict[str, bytes]().get
            )
        )
        for one in (text, scored)
    ]
    plain, heavy = (estimate_of(outcome.plan.step("it")) for outcome in found if outcome.plan is not None)
    weights = {term["name"]: term["gb"] for term in heavy["terms"]}
    assert weights["reward:judge model"] == pytest.approx(16.4, rel=0.05)
    assert heavy["memory_gb"] > plain["memory_gb"]


_CHECK = "\n  check: {eval: it, data: sums, reward: right, metrics: {r: returns}%s}"
_DURING = ", evaluate: {eval_steps: 10, evals: [check]}"


@pytest.mark.parametrize("stage", [GRPO % ("", "%s"), SFT % ("", _DURING + "%s") + _CHECK % ""])
def test_models_that_score_are_not_divided(stage: str) -> None:
    """Applies to the reward models of a training and of its evaluations."""

    def outcome(placement: str) -> CompileResult:
        text = RECIPE.format(stage=stage % placement, hardware="{gpus: 8xH100-80GB}", model="Qwen/Qwen3-8B")
        plain = "{score: {when: {equal: {of: completion, to: answer}}, then: 1.0}}"
        scored = text.replace(plain, "{reward_model: {of: completion, model: judge}}")
        scored = scored.replace("models:\n", "models:\n  judge: {from: Qwen/Qwen3-0.6B}\n")
        source = SourceFile("recipe.yaml", scored.encode())
        return compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=dict[str, bytes]().get))

    refused = diagnostics_of(outcome(", placement: {strategy: zero3}"))
    expected = "a reward model cannot compute scores with weights sharded by `zero3`"
    assert [(d.code, d.message.split(";")[0]) for d in refused] == [("PT1002", expected)]
    free = outcome("").plan
    assert free is not None
    assert free.step("it").launch.strategy in ("ddp", "zero2")


def test_what_an_eval_on_the_way_holds_is_weighed() -> None:
    """Sharded weights are gathered during generation, in addition to the cache; smaller batches need less."""

    def weighed(batch: int, strategy: str) -> dict[str, Any]:
        placement = f", placement: {{strategy: {strategy}}}"
        sampling = f", sampling: {{max_tokens: 2048, batch_size: {batch}}}"
        small = SFT % (", micro_batch_size: 1", _DURING + placement)
        return estimate_of(placed_step(small + _CHECK % sampling))

    few, many = weighed(1, "zero3"), weighed(64, "zero3")
    assert few["peak_phase"] != "generation of an evaluation"
    assert many["peak_phase"] == "generation of an evaluation"
    terms = {term["name"]: term["gb"] for term in many["terms"]}
    assert terms["gathered weights"] == pytest.approx(16.4, rel=0.05)
    assert terms["cache"] == pytest.approx(64 * 2560 * 147456 / 1e9, rel=0.01)  # 144 KiB per token
    divided = placed_step(SFT % ("", _DURING + ", placement: {strategy: fsdp}") + _CHECK % "")
    assert divided.launch.strategy == "fsdp"
    too_many = diagnostics_of(
        compile_stage(SFT % ("", _DURING) + _CHECK % ", sampling: {max_tokens: 2048, batch_size: 999}")
    )
    assert [d.code for d in too_many] == ["PT1005"]
    assert "evaluation completions at a time" in too_many[0].help
