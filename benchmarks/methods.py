"""Each training method on a task where learning shows, methods in a row, and the price of our loop.

    python benchmarks/methods.py [--rounds 5] [learning] [pairs] [beside]

writes these parts of benchmarks/methods.md, all of them when none is named. A model from random weights
learns by sft to give each sum its right answer or the next number, one as often as the other; every other
method goes on from there and has to tell them apart. The sums that are measured are those that are learnt:
the figures say that a method optimises what it should, not that the model can add.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from beside_trl import Compared, compared, warm

from posttrain.cli.loading import compiled
from posttrain.runtime.events import read_events
from posttrain.runtime.keeping.home import Home
from posttrain.runtime.keeping.runs import last_run, product_of
from posttrain.runtime.keeping.store import Product
from posttrain.spec.plan import step_to_json

HERE = Path(__file__).parent
TEMPLATE = (HERE.parent / "tests/recipes/tiny/chat.jinja").read_text()
_SMALL = "layers: 2, hidden: 64"  # as the recipe has it
_LARGER = "layers: 4, hidden: 256"
RECIPE = """\
recipe: 1
name: methods
seed: 5
models:
  base:
    init: {family: qwen2, layers: 2, hidden: 64, heads: 4, context: 64, spread: 0.06, tied: false}
    tokenizer: {init: characters, alphabet: "0123456789+=", words: [<answer>, </answer>]}
    chat_template: chat.jinja
datasets:
  sums:
    from: {arithmetic: {digits: 1, count: 81, seed: 1}}
    steps:
      - derive: {chosen: completion, rejected: "'<answer>' || (answer::integer + 1) || '</answer>'"}
  slips:
    from: sums
    steps:
      - derive: {completion: rejected}
  both:
    from: sums
    steps:
      - mix: {slips: 1.0}
rewards:
  right:
    reads: {completion: text, answer: text}
    nodes:
      tagged: {between: {of: completion, open: <answer>, close: </answer>}}
    returns: {score: {when: {equal: {of: tagged, to: answer}}, then: 1.0}}
stages:
"""
_MEASURED = "data: sums, reward: right, metrics: {right: returns}, sampling: {max_tokens: 6, batch: 81}"
_PAIRS = "data: sums, params: {steps: 60, learning_rate: 5.0e-4, batch: 27}"
_REWARDED = (
    "data: sums, reward: right, params: {steps: 80, prompts: 9, generations: 8, learning_rate: 5.0e-4,"
    " max_tokens: 6}"
)
# As many completions in as many sets; each is learnt from twice.
_VALUED = (
    "data: sums, reward: right, params: {steps: 160, batch: 72, iterations: 2, learning_rate: 5.0e-4,"
    " max_tokens: 6}"
)
_LORA = "adapter: {rank: 8, alpha: 16}"
_MERGED = "adapter: {rank: 8, alpha: 16, carry: merge}"
_SHORT = "params: {steps: 20, learning_rate: 1.0e-2, batch: 27}"
_LORA_PAIRS = _PAIRS.replace("5.0e-4", "2.0e-3")
_LORA_REWARDED = _REWARDED.replace("5.0e-4", "2.0e-3")
_LORA_VALUED = _VALUED.replace("5.0e-4", "2.0e-3")
# Each stage: its name, the stage that it goes on from, and what it is.
STAGES = {
    "sft": ("base", "train: sft, data: both, params: {steps: 150, learning_rate: 3.0e-3, batch: 27}"),
    "sft_more": ("sft", "train: sft, data: sums, params: {steps: 60, learning_rate: 1.0e-3, batch: 27}"),
    "reward_model": ("sft", f"train: reward_model, {_PAIRS}"),
    "dpo": ("sft", f"train: dpo, {_PAIRS}"),
    "ipo": ("sft", f"train: ipo, {_PAIRS}"),
    "kto": ("sft", f"train: kto, {_PAIRS}"),
    "orpo": ("sft", f"train: orpo, {_PAIRS}"),
    "cpo": ("sft", f"train: cpo, {_PAIRS}"),
    "simpo": ("sft", f"train: simpo, {_PAIRS}"),
    "grpo": ("sft", f"train: grpo, {_REWARDED}"),
    "rloo": ("sft", f"train: rloo, {_REWARDED}"),
    "ppo": ("sft", f"train: ppo, {_VALUED}"),
    "dpo_then_grpo": ("dpo", f"train: grpo, {_REWARDED}"),
    "kto_then_grpo": ("kto", f"train: grpo, {_REWARDED}"),
    "orpo_then_rloo": ("orpo", f"train: rloo, {_REWARDED}"),
    "grpo_then_dpo": ("grpo", f"train: dpo, {_PAIRS}"),
    "dpo_then_ppo": ("dpo", f"train: ppo, {_VALUED}"),
    "ppo_then_dpo": ("ppo", f"train: dpo, {_PAIRS}"),
    "lora": ("sft", f"train: sft, {_LORA}, data: both, {_SHORT}"),
    "lora_then_dpo": ("lora", f"train: dpo, {_LORA_PAIRS}"),
    "lora_then_grpo": ("lora", f"train: grpo, {_LORA_REWARDED}"),
    "lora_then_ppo": ("lora", f"train: ppo, {_LORA_VALUED}"),
    "lora_merged_then_dpo": ("lora", f"train: dpo, {_MERGED}, {_LORA_PAIRS}"),
    "lora_then_all_weights": ("lora", f"train: dpo, adapter: {{kind: full}}, {_PAIRS}"),
}
# What a method optimises, by its name in the events.
FIGURES = {
    "sft": "loss",
    "orpo": "loss",
    "grpo": "reward",
    "rloo": "reward",
    "ppo": "reward",
}
_SCORERS = ("reward_model",)
_FIRST, _LAST = 3, 3  # steps whose mean is the figure before, and after
_FEW = 12  # steps of the second method of a pair
# The writers; what a reward_model makes writes nothing, and only another one goes on from it.
_WRITERS = ("sft", "dpo", "ipo", "kto", "orpo", "cpo", "simpo", "grpo", "rloo", "ppo")
_SECONDS = (*_WRITERS[:1], "reward_model", *_WRITERS[1:])
_ONCE = _REWARDED.replace("steps: 80, prompts: 9, generations: 8", "steps: 24, prompts: 3, generations: 24")
# Stages that are timed: each prompt comes once, as in a first epoch, and there are as many checkpoints.
_TIMED = {
    "sft": "data: sums, params: {steps: 60, learning_rate: 1.0e-3, batch: 27}",
    "reward_model": _PAIRS,
    "dpo": _PAIRS,
    "ipo": _PAIRS,
    "kto": _PAIRS,
    "orpo": _PAIRS,
    "cpo": _PAIRS,
    "simpo": _PAIRS,
    "grpo": _ONCE,
    "rloo": _ONCE,
}
PARTS = {
    "learning": "## What each method learns",
    "pairs": "## One method after another",
    "beside": "## Beside TRL called by hand",
}
_ABOUT = (
    "`python benchmarks/methods.py` made this page: a qwen2 of 2 layers and width 64 with random weights, 81"
    " sums of one-digit numbers, one thread of a CPU. The first stage learns the right answer and the next"
    " number alike; the others are to tell them apart."
)
_ABOUT_LEARNING = (
    f"The figure before is the mean of the first {_FIRST} steps, after that of the last {_LAST}. `right` is"
    " the share of sums that greedy completions get right, before the stage and after it."
)
_ABOUT_PAIRS = (
    "Each method of the first column, and after it, from its product, each of the first row for a few steps:"
    " the second's own figure at its first step and at its last (loss for sft and orpo, reward for grpo,"
    " rloo and ppo, the margin for the others). A margin begins at zero where the reference is the first's"
    " product."
)
_ABOUT_BESIDE = (
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    asked = parser.parse_args()
    for part in asked.parts or PARTS:
        lines = {"learning": learning, "pairs": pairs, "beside": lambda: beside(asked.rounds)}[part]()
        write(part, lines)


def write(part: str, lines: list[str]) -> None:
    """Put a part of the page in its place; the others stay."""
    page = HERE / "methods.md"
    kept = sections(page.read_text(encoding="utf-8")) if page.exists() else {}
    kept[PARTS[part]] = [PARTS[part], "", *lines, ""]
    whole = [line for title in PARTS.values() for line in kept.get(title, [])]
    page.write_text("\n".join([*heading(), *whole]).rstrip() + "\n", encoding="utf-8")
    print("\n".join(lines), flush=True)


def sections(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines():
        title = line if line.startswith("## ") else title
        found.setdefault(title, []).append(line)
    return found


def run(stages: Mapping[str, str], size: str = _SMALL) -> Home:
    """Carry a recipe of these stages out with the command that users have."""
    folder = folder_of(stages, size)
    command = [sys.executable, "-m", "posttrain.cli.main", "run", str(folder), "--home", str(folder / "home")]
    subprocess.run(command, check=True)
    return Home(folder / "home")


def folder_of(stages: Mapping[str, str], size: str = _SMALL) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="posttrain-methods-"))
    lines = [f"  {name}: {{{what}}}" for name, what in stages.items()]
    recipe = RECIPE.replace(_SMALL, size)
    (folder / "recipe.yaml").write_text(recipe + "\n".join(lines) + "\n")
    (folder / "chat.jinja").write_text(TEMPLATE)
    return folder


def from_(start: str, what: str) -> str:
    train, _, rest = what.partition(", ")
    return f"{train}, model: {start}, {rest}"


def products(home: Home, names: Iterator[str]) -> dict[str, Product]:
    found = last_run(home)
    assert found is not None, "the recipe has run"
    made = {name: product_of(home, found, name) for name in names}
    return {name: product for name, product in made.items() if product is not None}


def heading() -> list[str]:
    stack = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "trl", "peft"))
    return [
        "# Training methods, measured",
        "",
        _ABOUT,
        "",
        f"{platform.machine()}, {os.cpu_count()} cores; Python {platform.python_version()}; {stack}.",
        "",
    ]


def learning() -> list[str]:
    stages = {"before": f"eval: base, {_MEASURED}"}
    for name, (start, what) in STAGES.items():
        stages[name] = from_(start, what)
        if name not in _SCORERS:
            stages[f"{name}_right"] = f"eval: {name}, {_MEASURED}"
    made = products(run(stages), iter(stages))
    lines = [
        _ABOUT_LEARNING,
        "",
        "| stage | goes on from | method | figure | before | after | right before | right after | CPU s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (start, what) in STAGES.items():
        method = what.split(",")[0].removeprefix("train: ")
        figure = FIGURES.get(method, "preference/margin")
        values = figures(made[name], figure)
        before, after = values[:_FIRST], values[-_LAST:]
        cells = [name, start, method, figure, f"{mean(before):.3f}", f"{mean(after):.3f}"]
        cells.append(right(made.get("before" if start == "base" else f"{start}_right")))
        cells.append(right(made.get(f"{name}_right")))
        lines.append(f"| {' | '.join(cells)} | {made[name].manifest['cost']['cpu_seconds']:.1f} |")
    return lines


def pairs() -> list[str]:
    """Every method after every other, and the scorer after itself."""
    stages = {"sft": from_(*STAGES["sft"])}
    firsts = {name: "sft_more" if name == "sft" else name for name in _WRITERS}
    for stage in (*firsts.values(), "reward_model"):
        stages[stage] = from_(*STAGES[stage])
    for first, stage in (*firsts.items(), ("reward_model", "reward_model")):
        for second in _SECONDS if first != "reward_model" else ("reward_model",):
            stages[f"{first}_then_{second}"] = from_(stage, few(second))
    made = products(run(stages), iter(stages))
    lines = [_ABOUT_PAIRS, "", f"| first | {' | '.join(_SECONDS)} |", "|---" * (len(_SECONDS) + 1) + "|"]
    for first in (*_WRITERS, "reward_model"):
        cells = [shift(made.get(f"{first}_then_{second}"), second) for second in _SECONDS]
        lines.append(f"| {first} | {' | '.join(cells)} |")
    return lines


def few(method: str) -> str:
    """A method for a few steps."""
    if method == "ppo":
        return f"train: ppo, {_VALUED.replace('steps: 160', f'steps: {_FEW}')}"
    if method in ("grpo", "rloo"):
        return f"train: {method}, {_REWARDED.replace('steps: 80', f'steps: {_FEW}')}"
    if method == "sft":
        return f"train: sft, data: sums, params: {{steps: {_FEW}, learning_rate: 1.0e-3, batch: 27}}"
    return f"train: {method}, {_PAIRS.replace('steps: 60', f'steps: {_FEW}')}"


def shift(product: Product | None, method: str) -> str:
    if product is None:
        return ""
    values = figures(product, FIGURES.get(method, "preference/margin"))
    return f"{values[0]:.2f} to {values[-1]:.2f}"


def figures(product: Product, name: str) -> list[float]:
    events = read_events(product.record / "events.jsonl")
    return [e["values"][name] for e in events if e["kind"] == "metrics" and name in e["values"]]


def right(product: Product | None) -> str:
    return "" if product is None else f"{product.facts['metrics']['right']['value']:.2f}"


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def beside(rounds: int) -> list[str]:
    """The same training by TRL alone, called by hand: its losses, and the CPU's time."""
    warm()
    lines = [_ABOUT_BESIDE.format(rounds=rounds), ""]
    for size in (_SMALL, _LARGER):
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
    start = {"sft": from_(*STAGES["sft"])}
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


if __name__ == "__main__":
    main()
