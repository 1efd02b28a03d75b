"""The weights after training do not depend on how a batch is divided into micro-batches and processes.

The last step of an epoch has fewer rows than the others here, and not a multiple of the micro-batch size.
SGD keeps the differences as small as those of the gradients.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, recipe

pytestmark = pytest.mark.slow

_ROWS = "epochs: 1, batch_size: 24, learning_rate: 0.1"  # 64 rows: steps of 24, 24 and 16
_ROLLOUTS = "max_steps: 2, num_prompts: 6, num_generations: 4, learning_rate: 0.1, max_completion_length: 4"
# A reward that differs between the completions of a prompt.
_REWARD = (
    "returns: {sum: [format, right]}",
    "returns: {sum: [format, right, {length: {of: completion}}]}",
)
# The largest deviation, as a share of the largest change of a weight.
_TOLERANCE = 1e-3

ROWS = {
    "sft": "sft",
    "dpo": "dpo",
    "ipo": "ipo",
    "simpo": "simpo",
    "reward model": "reward_model",
    "kto without KL": "kto, loss_type: apo_zero_unpaired",
    "cpo without SFT loss": "cpo, cpo_alpha: 0.0",
}
ROLLOUTS = {
    "grpo": "grpo",
    "rloo": "rloo",
    "grpo with an entropy bonus": "grpo, entropy_coef: 0.5",
    "grpo per completion, truncated ones masked": "grpo, loss_type: grpo, mask_truncated_completions: true",
}


def deviation(bench: StageHarness, case: str, other: str = "", processes: int = 1) -> float:
    """The largest difference that another division makes, as a share of the largest change of a weight."""
    whole, divided = trained(bench, case, "", 1), trained(bench, case, other, processes)
    start = weights(bench.run(recipe())["sft"].files)
    moved = max(float((whole[name] - one).abs().max()) for name, one in start.items() if name in whole)
    assert moved > 1e-5, "training has changed the weights"
    return max(float((whole[name] - divided[name]).abs().max()) for name in whole) / moved


def trained(bench: StageHarness, case: str, more: str, processes: int) -> dict[str, Any]:
    method, _, params = case.partition(", ")
    rollouts = method in ("grpo", "rloo")
    given = ", ".join(part for part in (_ROLLOUTS if rollouts else _ROWS, params, more) if part)
    reward = "reward: solution, " if rollouts else ""
    stage = (
        f"it: {{train: {method}, model: sft, data: sums.train, {reward}trl: {{optim: sgd}},"
        f" params: {{{given}}}}}"
    )
    plan = compile_plan(recipe(stage).replace(*_REWARD))
    step = plan.step("it")
    step = step.model_copy(
        update={
            "launch": step.launch.model_copy(
                update={"processes": processes, "strategy": "ddp" if processes > 1 else "single"}
            )
        }
    )
    bench.reset_step(step)  # the keys may be equal
    return weights(bench.run_step(plan, step).files)


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return {
        name: one
        for file in sorted(folder.glob("*.safetensors"))
        for name, one in load_file(str(file)).items()
    }


@pytest.mark.parametrize("case", ROWS.values(), ids=ROWS)
def test_micro_batches_of_rows(case: str, bench: StageHarness) -> None:
    assert deviation(bench, case, "micro_batch_size: 6") < _TOLERANCE


@pytest.mark.parametrize("case", ROLLOUTS.values(), ids=ROLLOUTS)
def test_micro_batches_of_rollouts(case: str, bench: StageHarness) -> None:
    assert deviation(bench, case, "micro_batch_size: 8") < _TOLERANCE


_REPEATED = "accelerate repeats rows to fill the last micro-batches, and a mean over rows includes them"


@pytest.mark.parametrize(
    "case",
    [
        "sft",
        pytest.param("dpo", marks=pytest.mark.xfail(reason=_REPEATED)),
        pytest.param("reward_model", marks=pytest.mark.xfail(reason=_REPEATED)),
    ],
)
def test_two_processes(case: str, bench: StageHarness) -> None:
    assert deviation(bench, case, "micro_batch_size: 6", processes=2) < _TOLERANCE


@pytest.mark.parametrize("case", ["sft", "dpo"])
def test_two_processes_without_a_partial_batch(case: str, bench: StageHarness) -> None:
    assert deviation(bench, f"{case}, max_steps: 2", "micro_batch_size: 6", processes=2) < _TOLERANCE
