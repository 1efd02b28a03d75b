"""What a stage costs beside the same training by TRL alone: each method in one run, on steps of two sizes."""

import json
import os
from collections.abc import Iterator

from beside_trl import Compared, compared, warm
from sums import LARGER, PAIRS, REWARDED, SFT, SMALL, folder_of, from_, products, run

from posttrain.cli.loading import compiled
from posttrain.spec.plan import step_to_json

_ONCE = REWARDED.replace("steps: 80, prompts: 9, generations: 8", "steps: 24, prompts: 3, generations: 24")
# Stages that are timed: each prompt comes once, as in a first epoch, and there are as many checkpoints.
_TIMED = {
    "sft": "data: sums, params: {steps: 60, learning_rate: 1.0e-3, batch: 27}",
    "reward_model": PAIRS,
    "dpo": PAIRS,
    "ipo": PAIRS,
    "kto": PAIRS,
    "orpo": PAIRS,
    "cpo": PAIRS,
    "simpo": PAIRS,
    "grpo": _ONCE,
    "rloo": _ONCE,
}
_ABOUT = (
    "The same trainer with the same arguments in a script (`benchmarks/by_hand.py`), with as many"
    " checkpoints. Stage and script are forked from one process onto one core and take turns at every step."
    " Seconds are the CPU's, the process's own and the kernel's, medians of {rounds} rounds: `whole` from"
    " loading the model to the saved product, `steps` from the first step to the last. In brackets the least"
    " and the greatest ratio of a round. What ours does besides: it seals and prunes checkpoints, writes"
    " events, watches for trouble, and keeps what the reward's nodes gave. PPO has no trainer in TRL to stand"
    " beside."
)
_LOAD = "The machine's load was {least:.0f} to {most:.0f} meanwhile, on {cores} cores."
_HEAD = (
    "| stage | steps | losses alike | by hand, whole | ours, whole | ratio | by hand, steps | ours, steps"
    " | ratio |"
)


def beside(rounds: int) -> list[str]:
    """The same training by TRL alone, called by hand: its losses, and the CPU's time."""
    warm()
    lines = [_ABOUT.format(rounds=rounds), ""]
    for size in (SMALL, LARGER):
        lines += [f"The model of `{size}`:", "", _HEAD, "|---|---|---|---|---|---|---|---|---|"]
        loads = [os.getloadavg()[0]]
        for found in timed(size, rounds):
            assert found.alike, f"called by hand, TRL has other losses for {found.name}"
            lines.append(told(found))
            loads.append(os.getloadavg()[0])
            print(lines[-1], flush=True)
        lines += ["", _LOAD.format(least=min(loads), most=max(loads), cores=os.cpu_count()), ""]
    return lines[:-1]


def timed(size: str, rounds: int) -> Iterator[Compared]:
    start = {"sft": from_("base", SFT)}
    made = products(run(start, size), iter(("sft", "datasets.sums")))
    inputs = {"model": str(made["sft"].files), "data": str(made["datasets.sums"].files)}
    stages = {f"timed_{name}": from_("sft", f"train: {name}, {what}") for name, what in _TIMED.items()}
    plan = compiled(folder_of({**start, **stages}, size) / "recipe.yaml", (), ())[0].plan
    assert plan is not None, "the stages that are timed compile"
    for name in _TIMED:
        step = json.loads(step_to_json(plan.step(f"timed_{name}")))
        yield compared(name, step, inputs, rounds)


def told(found: Compared) -> str:
    cells = [found.name, str(found.steps), "all, to the last bit"]
    for what in ("whole", "steps"):
        least, most = found.spread(what)
        cells += [f"{found.median(how, what):.2f}" for how in ("hand", "ours")]
        cells.append(f"{found.ratio(what):.3f} ({least:.2f} .. {most:.2f})")
    return f"| {' | '.join(cells)} |"
