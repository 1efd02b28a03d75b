"""GRPO and RLOO with vLLM in the trainer's process, with a real vLLM on a CPU.

The results hold for the CPU build in float32. These tests have not run on GPUs.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import require_service
from tests.recipe_command import find_processes, wait_until
from tests.runtime.distributed.vllm_on_cpu import vllm_path
from tests.runtime.environments import episode_recipe
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, metrics, recipe, warnings

from posttrain.runtime.events import read_events
from posttrain.runtime.runners.process import ProcessRunner
from posttrain.runtime.store.products import Product
from posttrain.spec.plan import Plan, Step

__all__ = ["vllm_path"]
pytestmark = pytest.mark.slow

_PARAMS = (
    "max_steps: 6, num_prompts: 8, num_generations: 4, learning_rate: 2.0e-3, max_completion_length: 8,"
    " save_steps: 2"
)
_LORA = "lora: {train: sft, model: base, data: sums.train, adapter: {r: 4}, params: {max_steps: 4}}"
_VLLM = "placement: {rollouts: {engine: vllm}}"
# The tolerance between token probabilities of vLLM and the trainer, in float32 with the same weights.
_TOLERANCE = 1e-5
_BFLOAT16_TOLERANCE = 5e-3


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, vllm_path: str) -> Iterator[StageHarness]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", vllm_path)
        runner = ProcessRunner()
        runner.prepare(compile_plan(stage()), ["it"], tmp_path_factory.mktemp("warm"))
        yield StageHarness(tmp_path_factory.mktemp("bench"), runner)
        runner.close()


def stage(method: str = "grpo", more: str = "", keys: str = _VLLM, model: str = "sft") -> str:
    it = (
        f"it: {{train: {method}, model: {model}, data: sums.train, reward: solution, {keys},"
        f" params: {{{_PARAMS}{more}}}}}"
    )
    # vLLM supports attention heads of dimension 32 or more.
    return recipe(_LORA, it).replace("hidden_size: 32", "hidden_size: 64")


def environment_stage() -> str:
    """Episodes of two turns. The maximum length is not known in advance."""
    params = _PARAMS.replace("max_completion_length: 8", "max_completion_length: 12")
    text = episode_recipe.episode_recipe(episode_recipe.GUESS, params, tokens=2).replace(
        "hidden_size: 32", "hidden_size: 64"
    )
    return text.replace("{train: grpo,", f"{{train: grpo, {_VLLM},")


CASES = {
    "grpo": stage(),
    "grpo, two processes": stage(),
    "grpo, vespo and a reference": stage(more=", loss_type: vespo, beta: 0.1"),
    "grpo, a new adapter": stage(keys=f"adapter: {{r: 4, lora_dropout: 0.1}}, {_VLLM}"),
    "grpo, an adapter that goes on": stage(model="lora"),
    "grpo, an adapter merged and a new one": stage(
        model="lora", keys=f"adapter: {{existing_adapter: merge}}, {_VLLM}"
    ),
    "grpo, over weights in four bits": stage(keys=f"adapter: {{type: qlora, r: 4}}, {_VLLM}"),
    "grpo, merged, over weights in four bits": stage(
        model="lora", keys=f"adapter: {{type: qlora, existing_adapter: merge}}, {_VLLM}"
    ),
    "rloo, iterations and buffer": stage(
        "rloo", ", optimizer_steps_per_generation: 2, num_iterations: 2, micro_batch_size: 16"
    ),
    "grpo, in an environment": environment_stage(),
}


def compile_case(case: str) -> tuple[Plan, Step]:
    plan = compile_plan(CASES[case])
    step = plan.step("grpo" if case.endswith("an environment") else "it")
    if case.endswith("two processes"):
        step = step.model_copy(
            update={"launch": step.launch.model_copy(update={"processes": 2, "strategy": "ddp"})}
        )
    return plan, step


# The adapter types that posttrain supports on a CPU. 4-bit weights need a GPU.
FOUR_BITS = [case for case in CASES if "four bits" in case]
RUN = [case for case in CASES if case not in FOUR_BITS]


@pytest.mark.parametrize("case", RUN)
def test_a_killed_stage_ends_with_the_same_bytes(case: str, bench: StageHarness) -> None:
    plan, step = compile_case(case)
    assert step.launch.engine == "vllm"
    bench.reset_step(step)
    undisturbed = bench.run_step(plan, step)
    assert warnings(undisturbed) == []
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    bench.kill_after_checkpoint(step, at=4)
    wait_until(lambda: not find_processes(bench.work(step)), "the end of all processes")
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert [event["step"] for event in bench.events(step) if event["kind"] == "resumed"] == [4]
    assert bench.commit(step).content_digest == undisturbed.content_digest


def test_vllm_has_the_weights_of_every_step(bench: StageHarness) -> None:
    """vLLM and the trainer agree on the probability of each sampled token before the optimizer step."""
    product = bench.run_step(*compile_case("grpo"))
    apart = metrics(product, "sampling/sampling_logp_difference/max")
    assert len(apart) == 6
    assert max(apart) < _TOLERANCE
    assert metrics(product, "sampling/importance_sampling_ratio/mean") == pytest.approx([1.0] * 6, abs=1e-4)


def sampling_metrics(product: Product) -> tuple[set[str], set[str]]:
    events = read_events(product.record / "events.jsonl")
    names = {name for event in events if event["kind"] == "metrics" for name in event["values"]}
    return {event["kind"] for event in events}, names


def test_what_is_told_is_what_transformers_tell_and_how_near_vllm_is(bench: StageHarness) -> None:
    plan = compile_plan(stage(keys="placement: {rollouts: {engine: transformers}}"))
    kinds, names = sampling_metrics(bench.run_step(plan, plan.step("it")))
    kinds_here, names_here = sampling_metrics(bench.run_step(*compile_case("grpo")))
    assert kinds <= kinds_here | {"resumed"}
    assert names <= names_here
    assert {name.partition("/")[0] for name in names_here - names} == {"sampling"}


@pytest.mark.parametrize("case", ["grpo", "grpo, an adapter that goes on"])
def test_vllm_writes_greedily_what_the_model_does_that_is_trained(
    case: str, bench: StageHarness, vllm_path: str, tmp_path: Path
) -> None:
    record = greedy_generations(case, bench, vllm_path, tmp_path / "record.json")
    assert len(record["vllm"]) == 6
    assert record["vllm"] == record["trained"]
    assert len({str(written) for written in record["vllm"]}) > 2, "training has changed what is written"
    assert (record["seed that vLLM left"], record["seed"]) == (0, compile_case(case)[1].params["seed"])


@pytest.mark.parametrize("case", FOUR_BITS)
def test_so_it_does_for_a_model_in_four_bits(
    case: str, bench: StageHarness, vllm_path: str, tmp_path: Path
) -> None:
    """vLLM holds unquantized weights. TRL's bfloat16 adapter causes a difference once it is not zero."""
    require_service(
        "bitsandbytes", find_spec("bitsandbytes"), "install it together with vLLM's CPU build", apart=True
    )
    record = greedy_generations(case, bench, vllm_path, tmp_path / "record.json", "nf4")
    assert record["apart"][0] < _TOLERANCE
    assert max(record["apart"]) < _BFLOAT16_TOLERANCE
    pairs = [
        pair for by in zip(record["vllm"], record["trained"], strict=True) for pair in zip(*by, strict=True)
    ]
    assert sum(one == other for one, other in pairs) >= 0.9 * len(pairs)
    assert len({str(written) for written in record["vllm"]}) > 2, "training has changed what is written"


def greedy_generations(
    case: str, bench: StageHarness, vllm_path: str, out: Path, *how: str
) -> dict[str, Any]:
    """Return the completions of vLLM and of the trained model before each generation of a stage."""
    plan, step = compile_case(case)
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    line = [
        sys.executable,
        "-m",
        "tests.runtime.distributed.greedy_comparison",
        str(bench.work(step)),
        str(out),
        *how,
    ]
    done = subprocess.run(line, env={**os.environ, "PYTHONPATH": vllm_path}, check=False, timeout=600)
    assert done.returncode == 0
    bench.reset_step(step)
    return json.loads(out.read_text())
