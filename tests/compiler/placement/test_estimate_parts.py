"""Tests the estimate of a training stage: the sum of its parts, with evaluations during training."""

from collections.abc import Mapping
from typing import Any

import pytest

from posttrain.compiler.pipeline import CompileResult, compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG

RECIPE = """
recipe: 1
name: parts
hardware: {HARDWARE}
models:
  base: {from: MODEL, revision: 7ae557604adf67be50417f59c2c2f167def9a775}
datasets:
  sums:
    from: {arithmetic: {digits: 3, count: 64000}}
    steps: [{split: {test: 1000}}]
  hidden:
    from: {hub: {name: org/private, columns: {prompt: text, answer: text}}}
rewards:
  right:
    reads: {completion: text, answer: text}
    returns: {score: {when: {equal: {of: completion, to: answer}}, then: 1.0}}
stages:
  it: STAGE
  check: {eval: it, data: ROWS, reward: right, metrics: {r: {mean: returns}}, sampling: {max_tokens: 512}}
"""
SFT = "{train: sft, model: base, data: sums.train, params: {max_steps: 100, batch_size: 64}%s}"
GRPO = (
    "{train: grpo, model: base, data: sums.train, reward: right, params: {max_steps: 100, num_prompts: 16,"
    " num_generations: 8, max_completion_length: 512}%s}"
)
EVERY_25 = ", evaluate: {eval_steps: 25, evals: [check]}"
EVERY_STEP = ", evaluate: {eval_steps: 1, evals: [check]}"
EVERY_30 = ", evaluate: {eval_steps: 30, evals: [check]}"
ADAPTER = ", adapter: {type: lora, r: 16, lora_alpha: 32}"


def compile_stage(
    stage: str,
    hardware: str = "gpus: 1xA100-80GB",
    rows: str = "sums.test",
    model: str = "Qwen/Qwen2.5-0.5B",
    sampling: str = "max_tokens: 512",
    engine: str = "auto",
) -> CompileResult:
    text = RECIPE.replace("max_tokens: 512}", f"{sampling}}}, engine: {engine}")
    for name, value in {"HARDWARE": hardware, "MODEL": model, "STAGE": stage, "ROWS": rows}.items():
        text = text.replace(name, value, 1)
    source = SourceFile("recipe.yaml", text.encode())
    return compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=dict[str, bytes]().get))


def estimates(*args: str, **given: str) -> Mapping[str, dict[str, Any]]:
    outcome = compile_stage(*args, **given)
    assert outcome.plan is not None, [d.message for d in outcome.diagnostics]
    # The estimate of a model has only its disk space.
    return {
        step.id: dict(step.estimate) for step in outcome.plan.steps if step.estimate and step.kind != "model"
    }


def part(estimate: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    (found,) = [one for one in estimate["parts"] if one["name"] == name]
    return found


@pytest.mark.parametrize("stage", [SFT % EVERY_25, GRPO % EVERY_25, GRPO % (EVERY_25 + ADAPTER)])
def test_the_estimate_is_the_sum_of_its_parts(stage: str) -> None:
    # Other steps have only an estimate of their disk space.
    timed = [one for one in estimates(stage, hardware="gpus: 4xH100-80GB").values() if "seconds" in one]
    assert timed
    for estimate in timed:
        for name in ("seconds", "seconds_min", "seconds_max"):
            assert estimate[name] == pytest.approx(sum(one[name] for one in estimate["parts"]), abs=1)
        assert estimate["dollars"] == pytest.approx(
            sum(one["dollars"] for one in estimate["parts"]), abs=0.01
        )
        assert all(one["seconds_min"] <= one["seconds"] <= one["seconds_max"] for one in estimate["parts"])


def test_evaluations_are_in_the_time_and_the_cost() -> None:
    never, some, all_steps = (estimates(SFT % evaluate)["it"] for evaluate in ("", EVERY_25, EVERY_STEP))
    assert "in-loop evaluation check" not in [one["name"] for one in never["parts"]]
    assert never["seconds"] < some["seconds"] < all_steps["seconds"]
    assert never["dollars"] < some["dollars"] < all_steps["dollars"]
    four, hundred = (part(one, "in-loop evaluation check") for one in (some, all_steps))
    assert hundred["seconds"] == pytest.approx(25 * four["seconds"], rel=1e-3)
    assert four["why"].startswith("4 x 1k completions")


def test_the_last_step_is_evaluated_as_well() -> None:
    assert part(estimates(SFT % EVERY_30)["it"], "in-loop evaluation check")["why"].startswith("4 x")


def test_an_evaluation_takes_what_the_eval_stage_takes_with_the_same_engine() -> None:
    """Both are on one GPU with transformers."""
    found = estimates(SFT % EVERY_25, engine="transformers")
    inside, stage = part(found["it"], "in-loop evaluation check"), part(found["check"], "generation")
    assert inside["seconds_max"] == pytest.approx(4 * stage["seconds_max"], rel=1e-3)


def test_processes_share_the_batches_of_an_evaluation() -> None:
    """1000 rows are 16 batches of 64: two batches for each of eight processes."""
    alone, together = (
        part(estimates(SFT % EVERY_25, hardware=f"gpus: {count}xA100-80GB")["it"], "in-loop evaluation check")
        for count in (1, 8)
    )
    assert together["seconds"] == pytest.approx(alone["seconds"] / 8, rel=1e-3)


def test_vllm_evaluates_where_it_generates_the_rollouts() -> None:
    transformers, colocated, served = (
        estimates(
            GRPO.replace("num_generations: 8", "num_generations: 8, micro_batch_size: 1")
            % (EVERY_25 + placement),
            hardware="gpus: 2xA100-80GB",
        )["it"]
        for placement in (
            ", placement: {rollouts: {engine: transformers}}",
            "",
            ", placement: {rollouts: {mode: server}}",
        )
    )
    slow, fast, other = (part(one, "in-loop evaluation check") for one in (transformers, colocated, served))
    assert "vllm on 2 GPU(s)" in fast["why"]
    assert "vllm on 1 GPU(s)" in other["why"]
    assert "transformers on 2 GPU(s)" in slow["why"]
    assert fast["seconds"] < slow["seconds"] / 5


def test_memory_of_an_evaluation_is_that_of_its_engine() -> None:
    """vLLM has its cache already; transformers allocates one beside the optimizer states."""
    phases: list[str] = []
    for engine in ("transformers", "vllm"):
        stage = GRPO.replace("num_generations: 8", "num_generations: 8, micro_batch_size: 1")
        placement = f", placement: {{rollouts: {{engine: {engine}}}}}"
        found = estimates(stage % (EVERY_25 + placement), sampling="max_tokens: 512, n: 32, temperature: 1.0")
        phases.append(found["it"]["peak_phase"])
    assert phases[0].endswith("of an evaluation")
    assert not phases[1].endswith("of an evaluation")


def test_unknown_rows_of_an_evaluation_make_the_time_a_lower_bound() -> None:
    known, unknown = (estimates(SFT % EVERY_25, rows=rows)["it"] for rows in ("sums.test", "hidden"))
    assert unknown["seconds"] < known["seconds"]
    assert "`size`" in unknown["unknown_reason"]
    assert any("not in the time" in one for one in unknown["assumes"])
    assert "unknown_reason" not in known


def test_gpus_of_a_server_and_of_tensor_parallelism_are_paid() -> None:
    price = "gpus: 4xH100-80GB, price_per_hour: 4"
    served = estimates(
        GRPO % ", placement: {num_processes: 2, rollouts: {mode: server, gpus: 2}}", hardware=price
    )
    assert served["it"]["dollars"] == pytest.approx(served["it"]["seconds"] * 4 / 3600, abs=0.02)
    large = estimates(
        SFT % ADAPTER, hardware="gpus: 4xH100-80GB, price_per_hour: 4", model="Qwen/Qwen2.5-72B-Instruct"
    )["check"]
    assert large["dollars"] > large["seconds"] * 1.9 / 3600, "at least two GPUs at a dollar per hour"


def test_checkpoints_are_counted() -> None:
    some, many = (
        part(estimates(SFT.replace("max_steps: 100", f"max_steps: 100{more}") % "")["it"], "checkpoints")
        for more in ("", ", save_steps: 10")
    )
    assert some["why"].startswith("4 x")
    assert many["why"].startswith("10 x")
    assert some["seconds"] < many["seconds"]


def test_the_headroom_is_left_free_and_stated() -> None:
    for headroom in (0.0, 0.05, 0.3):
        estimate = estimates(SFT % "", hardware=f"gpus: 1xA100-80GB, memory_headroom: {headroom}")["it"]
        assert estimate["memory_gb"] <= (1 - headroom) * estimate["limit_gb"]
        assert any(f"{headroom:.0%} of a GPU's memory stay free" in one for one in estimate["assumes"])
    default = estimates(SFT % "")["it"]
    assert default["memory_gb"] <= 0.9 * default["limit_gb"]


def test_a_placement_of_the_recipe_with_less_headroom_says_so() -> None:
    stage = SFT.replace(
        "batch_size: 64", "batch_size: 64, micro_batch_size: 32, gradient_checkpointing: false"
    )
    estimate = estimates(stage % "", hardware="gpus: 1xA100-80GB, memory_headroom: 0.5")["it"]
    assert any("less than the memory_headroom of 50%" in one for one in estimate["assumes"])


def test_the_network_between_nodes_takes_time() -> None:
    """The same GPUs in one node need no estimate of their own: the MFU was observed there."""
    hardware = {n: f"gpus: {8 // n}xH100-80GB, nodes: {n}" for n in (1, 2)}
    parts = {
        n: {p["name"]: p for p in estimates(SFT % "", hardware=hardware[n])["it"]["parts"]} for n in (1, 2)
    }
    assert "communication" not in parts[1]
    found = parts[2]["communication"]
    assert 0 <= found["seconds_min"] < found["seconds_max"]
    assert "over 2 nodes" in found["why"]
    slow = estimates(SFT % "", hardware="gpus: 4xL40S-48GB, nodes: 2")["it"]["parts"]
    assert next(p for p in slow if p["name"] == "communication")["seconds_max"] > found["seconds_max"]
