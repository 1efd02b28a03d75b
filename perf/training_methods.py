"""Each training method on a task where learning shows, methods in a row, and the overhead of our loop.

    python perf/training_methods.py [--rounds 5] [learning] [pairs] [overhead]

writes these parts of perf/training_methods.md, all of them when none is named. A model from random weights
learns by sft to give each sum its right answer or the next number, one as often as the other; every other
method goes on from there and has to tell them apart. The sums that are measured are those that are learnt:
the figures say that a method optimises what it should, not that the model can add.
"""

import argparse
import os
import platform
from importlib.metadata import version
from pathlib import Path

from sums_recipe import (
    EVAL_OPTIONS,
    PPO_TRAINING,
    PREFERENCE_TRAINING,
    REWARD_TRAINING,
    SFT_TRAINING,
    load_products,
    run_stages,
    train_from,
)
from trl_overhead import trl_overhead_lines

from posttrain.runtime.events import read_events
from posttrain.runtime.store.products import Product

_LORA = "adapter: {r: 8, lora_alpha: 16}"
_MERGED = "adapter: {r: 8, lora_alpha: 16, existing_adapter: merge}"
_SHORT = "params: {max_steps: 20, learning_rate: 1.0e-2, batch_size: 27}"
_LORA_PAIRS = PREFERENCE_TRAINING.replace("5.0e-4", "2.0e-3")
_LORA_REWARDED = REWARD_TRAINING.replace("5.0e-4", "2.0e-3")
_LORA_VALUED = PPO_TRAINING.replace("5.0e-4", "2.0e-3")
# Each stage: its name, the stage that it goes on from, and what it is.
STAGES = {
    "sft": ("base", SFT_TRAINING),
    "sft_more": (
        "sft",
        "train: sft, data: sums, params: {max_steps: 60, learning_rate: 1.0e-3, batch_size: 27}",
    ),
    "reward_model": ("sft", f"train: reward_model, {PREFERENCE_TRAINING}"),
    "dpo": ("sft", f"train: dpo, {PREFERENCE_TRAINING}"),
    "ipo": ("sft", f"train: ipo, {PREFERENCE_TRAINING}"),
    "kto": ("sft", f"train: kto, {PREFERENCE_TRAINING}"),
    "orpo": ("sft", f"train: orpo, {PREFERENCE_TRAINING}"),
    "cpo": ("sft", f"train: cpo, {PREFERENCE_TRAINING}"),
    "simpo": ("sft", f"train: simpo, {PREFERENCE_TRAINING}"),
    "grpo": ("sft", f"train: grpo, {REWARD_TRAINING}"),
    "rloo": ("sft", f"train: rloo, {REWARD_TRAINING}"),
    "ppo": ("sft", f"train: ppo, {PPO_TRAINING}"),
    "dpo_then_grpo": ("dpo", f"train: grpo, {REWARD_TRAINING}"),
    "kto_then_grpo": ("kto", f"train: grpo, {REWARD_TRAINING}"),
    "orpo_then_rloo": ("orpo", f"train: rloo, {REWARD_TRAINING}"),
    "grpo_then_dpo": ("grpo", f"train: dpo, {PREFERENCE_TRAINING}"),
    "dpo_then_ppo": ("dpo", f"train: ppo, {PPO_TRAINING}"),
    "ppo_then_dpo": ("ppo", f"train: dpo, {PREFERENCE_TRAINING}"),
    "lora": ("sft", f"train: sft, {_LORA}, data: both, {_SHORT}"),
    "lora_then_dpo": ("lora", f"train: dpo, {_LORA_PAIRS}"),
    "lora_then_grpo": ("lora", f"train: grpo, {_LORA_REWARDED}"),
    "lora_then_ppo": ("lora", f"train: ppo, {_LORA_VALUED}"),
    "lora_merged_then_dpo": ("lora", f"train: dpo, {_MERGED}, {_LORA_PAIRS}"),
    "lora_then_all_weights": ("lora", f"train: dpo, adapter: {{type: full}}, {PREFERENCE_TRAINING}"),
}
# What a method optimises, by its name in the events.
OPTIMIZED_METRICS = {
    "sft": "loss",
    "orpo": "loss",
    "grpo": "reward",
    "rloo": "reward",
    "ppo": "reward",
}
_SCORERS = ("reward_model",)
_FIRST, _LAST = 3, 3  # steps whose mean is the metric before, and after
_SHORT_STEPS = 12  # steps of the second method of a pair
# The writers; what a reward_model makes writes nothing, and only another one goes on from it.
_GENERATIVE_METHODS = ("sft", "dpo", "ipo", "kto", "orpo", "cpo", "simpo", "grpo", "rloo", "ppo")
_SECOND_METHODS = (*_GENERATIVE_METHODS[:1], "reward_model", *_GENERATIVE_METHODS[1:])
PARTS = {
    "learning": "## What each method learns",
    "pairs": "## One method after another",
    "overhead": "## Overhead over TRL called by hand",
}
_ABOUT = (
    "`python perf/training_methods.py` made this page: a qwen2 of 2 layers and width 64 with random weights,"
    " 81 sums of one-digit numbers, one thread of a CPU. The first stage learns the right answer and the next"
    " number alike; the others are to tell them apart."
)
_ABOUT_LEARNING = (
    f"The metric before is the mean of the first {_FIRST} steps, after that of the last {_LAST}. `right` is"
    " the share of sums that greedy completions get right, before the stage and after it."
)
_ABOUT_PAIRS = (
    "Each method of the first column, and after it, from its product, each of the first row for a few steps:"
    " the second's own metric at its first step and at its last (loss for sft and orpo, reward for grpo,"
    " rloo and ppo, the margin for the others). A margin begins at zero where the reference is the first's"
    " product."
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    arguments = parser.parse_args()
    for part in arguments.parts or PARTS:
        lines = {
            "learning": learning,
            "pairs": pairs,
            "overhead": lambda: trl_overhead_lines(arguments.rounds),
        }[part]()
        write_section(part, lines)


def write_section(part: str, lines: list[str]) -> None:
    """Put a part of the page in its place; the others stay."""
    page = Path(__file__).parent / "training_methods.md"
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
    stages = {"before": f"eval: base, {EVAL_OPTIONS}"}
    for name, (start, what) in STAGES.items():
        stages[name] = train_from(start, what)
        if name not in _SCORERS:
            stages[f"{name}_right"] = f"eval: {name}, {EVAL_OPTIONS}"
    made = load_products(run_stages(stages), iter(stages))
    lines = [
        _ABOUT_LEARNING,
        "",
        "| stage | goes on from | method | metric | before | after | right before | right after | CPU s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (start, what) in STAGES.items():
        method = what.split(",")[0].removeprefix("train: ")
        metric = OPTIMIZED_METRICS.get(method, "preference/margin")
        values = metric_values(made[name], metric)
        before, after = values[:_FIRST], values[-_LAST:]
        cells = [name, start, method, metric, f"{mean(before):.3f}", f"{mean(after):.3f}"]
        cells.append(accuracy_text(made.get("before" if start == "base" else f"{start}_right")))
        cells.append(accuracy_text(made.get(f"{name}_right")))
        lines.append(f"| {' | '.join(cells)} | {made[name].manifest['cost']['cpu_seconds']:.1f} |")
    return lines


def pairs() -> list[str]:
    """Every method after every other, and the scorer after itself."""
    stages = {"sft": train_from(*STAGES["sft"])}
    firsts = {name: "sft_more" if name == "sft" else name for name in _GENERATIVE_METHODS}
    for stage in (*firsts.values(), "reward_model"):
        stages[stage] = train_from(*STAGES[stage])
    for first, stage in (*firsts.items(), ("reward_model", "reward_model")):
        for second in _SECOND_METHODS if first != "reward_model" else ("reward_model",):
            stages[f"{first}_then_{second}"] = train_from(stage, short_stage(second))
    made = load_products(run_stages(stages), iter(stages))
    lines = [
        _ABOUT_PAIRS,
        "",
        f"| first | {' | '.join(_SECOND_METHODS)} |",
        "|---" * (len(_SECOND_METHODS) + 1) + "|",
    ]
    for first in (*_GENERATIVE_METHODS, "reward_model"):
        cells = [metric_change(made.get(f"{first}_then_{second}"), second) for second in _SECOND_METHODS]
        lines.append(f"| {first} | {' | '.join(cells)} |")
    return lines


def short_stage(method: str) -> str:
    """A method for a few steps."""
    if method == "ppo":
        return f"train: ppo, {PPO_TRAINING.replace('max_steps: 160', f'max_steps: {_SHORT_STEPS}')}"
    if method in ("grpo", "rloo"):
        return f"train: {method}, {REWARD_TRAINING.replace('max_steps: 80', f'max_steps: {_SHORT_STEPS}')}"
    if method == "sft":
        return (
            f"train: sft, data: sums, params: {{max_steps: {_SHORT_STEPS}, learning_rate: 1.0e-3, batch_size:"
            " 27}"
        )
    return f"train: {method}, {PREFERENCE_TRAINING.replace('max_steps: 60', f'max_steps: {_SHORT_STEPS}')}"


def metric_change(product: Product | None, method: str) -> str:
    if product is None:
        return ""
    values = metric_values(product, OPTIMIZED_METRICS.get(method, "preference/margin"))
    return f"{values[0]:.2f} to {values[-1]:.2f}"


def metric_values(product: Product, name: str) -> list[float]:
    events = read_events(product.record / "events.jsonl")
    return [e["values"][name] for e in events if e["kind"] == "metrics" and name in e["values"]]


def accuracy_text(product: Product | None) -> str:
    return "" if product is None else f"{product.facts['metrics']['right']['value']:.2f}"


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


if __name__ == "__main__":
    main()
