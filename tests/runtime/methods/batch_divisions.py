"""Trains a stage on one batch divided in several ways, and compares the weights and the keys.

The last step of an epoch has fewer rows than the others: 64 rows make steps of 24, 24 and 16. SGD keeps the
differences as small as those of the gradients.
"""

from pathlib import Path
from typing import Any, NamedTuple

from tests.runtime.methods.stage_harness import StageHarness, compile_plan, recipe

from posttrain.spec.plan import Launch

_ROWS = "epochs: 1, batch_size: 24, learning_rate: 0.1, precision: float32"
_ROLLOUTS = (
    "max_steps: 2, num_prompts: 6, num_generations: 4, learning_rate: 0.1, max_completion_length: 4,"
    " precision: float32"
)
# A reward that differs between the completions of a prompt.
_REWARD = (
    "returns: {sum: [format, right]}",
    "returns: {sum: [format, right, {length: {of: completion}}]}",
)
_GPUS = ("recipe: 1\n", "recipe: 1\nhardware: {gpus: 4xH100-80GB}\n")


class Division(NamedTuple):
    """A division of the batch into micro-batches and processes."""

    micro_batch_size: int | None
    processes: int

    def __str__(self) -> str:
        return f"{self.processes} x {self.micro_batch_size}"


WHOLE = Division(None, 1)
# The 16 rows of the last step, by process: 6+6+4; 6+4 and 6; 12 and 4; 8, 8 and none; 6, 6, 4 and none.
DIVISIONS = (Division(6, 1), Division(6, 2), Division(12, 2), Division(8, 3), Division(6, 4))


class Case(NamedTuple):
    """A training stage: its method, parameters and other keys."""

    method: str
    params: str = ""
    keys: str = ""
    trl: str = ""
    family: str = "qwen2"

    def stage(self, division: Division, placement: str = "") -> str:
        rollouts = self.method in ("grpo", "rloo")
        micro = f"micro_batch_size: {division.micro_batch_size}" if division.micro_batch_size else ""
        given = ", ".join(part for part in (_ROLLOUTS if rollouts else _ROWS, self.params, micro) if part)
        keys = ("reward: solution, " if rollouts else "") + self.keys
        trl = ", ".join(part for part in ("optim: sgd", self.trl) if part)
        return (
            f"it: {{train: {self.method}, model: sft, data: sums.train, {keys}{placement}"
            f"trl: {{{trl}}}, params: {{{given}}}}}"
        )

    def recipe(self, division: Division, placement: str = "") -> str:
        return recipe(self.stage(division, placement), family=self.family).replace(*_REWARD)


def key(case: Case, division: Division) -> str:
    """The key of the stage on a machine with GPUs, where the placement sets the number of processes."""
    strategy = "ddp" if division.processes > 1 else "single"
    rollouts = ", rollouts: {engine: transformers}" if case.method in ("grpo", "rloo") else ""
    placement = f"placement: {{num_processes: {division.processes}, strategy: {strategy}{rollouts}}}, "
    return compile_plan(case.recipe(division, placement).replace(*_GPUS)).step("it").key


class Deviations:
    """The deviations of cases in one store. The weights of the undivided batch are cached."""

    def __init__(self, bench: StageHarness) -> None:
        self._bench = bench
        self._whole: dict[Case, dict[str, Any]] = {}

    def deviation(self, case: Case, division: Division) -> float:
        """The largest difference of a weight, as a share of the largest change of a weight."""
        if case not in self._whole:
            self._whole[case] = self._trained(case, WHOLE)
        whole, divided = self._whole[case], self._trained(case, division)
        moved = self._largest_change(case, whole)
        assert moved > 1e-5, "training has changed the weights"
        return max(float((whole[name] - divided[name]).abs().max()) for name in whole) / moved

    def _largest_change(self, case: Case, trained: dict[str, Any]) -> float:
        start = weights(self._bench.run(recipe(family=case.family))["sft"].files)
        # The matrices B of a new adapter start at zero.
        changes = [
            one - start.get(name, 0) for name, one in trained.items() if name in start or "lora_B" in name
        ]
        return max(float(change.abs().max()) for change in changes)

    def _trained(self, case: Case, division: Division) -> dict[str, Any]:
        plan = compile_plan(case.recipe(division))
        strategy = "ddp" if division.processes > 1 else "single"
        launch = Launch(processes=division.processes, strategy=strategy)
        step = plan.step("it").model_copy(update={"launch": launch})
        self._bench.reset_step(step)  # the keys may be equal
        return weights(self._bench.run_step(plan, step).files)


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return {
        name: one
        for file in sorted(folder.glob("*.safetensors"))
        for name, one in load_file(str(file)).items()
    }


# Cases whose weights do not depend on the division.
INDEPENDENT = {
    "sft": Case("sft"),
    "dpo": Case("dpo"),
    "dpo, robust": Case("dpo", "loss_type: robust, label_smoothing: 0.1"),
    "ipo": Case("ipo"),
    "simpo": Case("simpo"),
    "reward_model": Case("reward_model"),
    "reward_model, centered": Case("reward_model", "center_rewards_coefficient: 0.01"),
    "kto without KL": Case("kto", "loss_type: apo_zero_unpaired"),
    "cpo without SFT loss": Case("cpo", "cpo_alpha: 0.0"),
    "dpo, an adapter with dropout (disabled)": Case("dpo", keys="adapter: {r: 4, lora_dropout: 0.1}, "),
}
# Cases whose weights depend on it: the launch is in their keys.
DEPENDENT = {
    # The estimate of the KL divergence is 0 unless the likelihood of completions of other prompts rises.
    "kto": Case("kto", "beta: 2.0, undesirable_weight: 0.01, desirable_weight: 10.0"),
    "cpo": Case("cpo"),
    "orpo": Case("orpo"),
    "sft, packed": Case("sft", "packing: true, loss_on: all"),
    "sft, an adapter with dropout": Case("sft", keys="adapter: {r: 4, lora_dropout: 0.1}, "),
    "sft, a model with dropout": Case("sft", family="gpt2"),
    "dpo, dropout enabled": Case("dpo", family="gpt2", trl="disable_dropout: false"),
    "sft, `dataloader_drop_last`": Case("sft", "max_steps: 3", trl="dataloader_drop_last: true"),
}
# Their completions do not depend on the micro-batch size, but on the processes.
ROLLOUTS = {
    "grpo": Case("grpo"),
    "rloo": Case("rloo"),
    "grpo with an entropy bonus": Case("grpo", "entropy_coef: 0.5"),
    "grpo per completion, truncated ones masked": Case(
        "grpo", "loss_type: grpo, mask_truncated_completions: true"
    ),
}
# A loss over the whole batch: a micro-batch size is rejected.
WHOLE_BATCH = {
    "dpo, aot": Case("dpo", "loss_type: aot"),
    "dpo, sft": Case("dpo", "loss_type: [sigmoid, sft]"),
    "grpo, bnpo": Case("grpo", "loss_type: bnpo"),
}
