"""Measures the overhead of a stage over a TRL script: each method in one run, with two model sizes."""

import json
import os
from collections.abc import Iterator

from sums_recipe import (
    LARGER,
    PREFERENCE_TRAINING,
    REWARD_TRAINING,
    SFT_TRAINING,
    SMALL,
    load_products,
    run_stages,
    train_from,
    write_recipe,
)
from trl_comparison import Comparison, compare_with_trl, preload_modules

from posttrain.cli.compile import compile_file
from posttrain.spec.plan import step_to_json

_ONE_EPOCH_TRAINING = REWARD_TRAINING.replace(
    "max_steps: 80, num_prompts: 9, num_generations: 8", "max_steps: 24, num_prompts: 3, num_generations: 24"
)
# The timed stages: each prompt occurs once, as in a first epoch, with the same number of checkpoints.
_TIMED_STAGES = {
    "sft": "data: sums, params: {max_steps: 60, learning_rate: 1.0e-3, batch_size: 27}",
    "reward_model": PREFERENCE_TRAINING,
    "dpo": PREFERENCE_TRAINING,
    "ipo": PREFERENCE_TRAINING,
    "kto": PREFERENCE_TRAINING,
    "orpo": PREFERENCE_TRAINING,
    "cpo": PREFERENCE_TRAINING,
    "simpo": PREFERENCE_TRAINING,
    "grpo": _ONE_EPOCH_TRAINING,
    "rloo": _ONE_EPOCH_TRAINING,
}
_ABOUT = (
    "The script (`perf/trl_baseline.py`) runs the same trainer with the same arguments and number of"
    " checkpoints. Stage and script are forked from one process onto one core and alternate after every step."
    " Times are CPU seconds (user and system), medians of {rounds} rounds: `whole` from loading the model to"
    " the saved product, `steps` from the first step to the last. In parentheses: the minimum and maximum"
    " ratio of a round. In addition, a stage verifies and deletes checkpoints, writes events, monitors"
    " anomalies and records the values of reward nodes. PPO is omitted: TRL has no equivalent trainer."
)
_LOAD = "Load of the machine: {least:.0f} to {most:.0f}, on {cores} cores."
_HEAD = (
    "| stage | steps | equal losses | script, whole | stage, whole | ratio | script, steps | stage, steps"
    " | ratio |"
)


def trl_overhead_lines(rounds: int) -> list[str]:
    """Compare stages with TRL scripts: losses and CPU time."""
    preload_modules()
    lines = [_ABOUT.format(rounds=rounds), ""]
    for size in (SMALL, LARGER):
        lines += [f"The model of `{size}`:", "", _HEAD, "|---|---|---|---|---|---|---|---|---|"]
        loads = [os.getloadavg()[0]]
        for found in time_stages(size, rounds):
            assert found.losses_equal, f"the TRL script has other losses for {found.name}"
            lines.append(comparison_row(found))
            loads.append(os.getloadavg()[0])
            print(lines[-1], flush=True)
        lines += ["", _LOAD.format(least=min(loads), most=max(loads), cores=os.cpu_count()), ""]
    return lines[:-1]


def time_stages(size: str, rounds: int) -> Iterator[Comparison]:
    start = {"sft": train_from("base", SFT_TRAINING)}
    made = load_products(run_stages(start, size), iter(("sft", "datasets.sums")))
    inputs = {"model": str(made["sft"].files), "data": str(made["datasets.sums"].files)}
    stages = {
        f"timed_{name}": train_from("sft", f"train: {name}, {what}") for name, what in _TIMED_STAGES.items()
    }
    plan = compile_file(write_recipe({**start, **stages}, size) / "recipe.yaml", (), ())[0].plan
    assert plan is not None, "the timed stages compile"
    for name in _TIMED_STAGES:
        step = json.loads(step_to_json(plan.step(f"timed_{name}")))
        yield compare_with_trl(name, step, inputs, rounds)


def comparison_row(found: Comparison) -> str:
    cells = [found.name, str(found.steps), "all, bit-identical"]
    for what in ("whole", "steps"):
        least, most = found.ratio_range(what)
        cells += [f"{found.median(how, what):.2f}" for how in ("hand", "ours")]
        cells.append(f"{found.ratio(what):.3f} ({least:.2f} .. {most:.2f})")
    return f"| {' | '.join(cells)} |"
