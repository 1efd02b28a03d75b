"""Each training method on a task where learning shows, methods in a row, and the price of our loop.

    python benchmarks/methods.py

writes benchmarks/methods.md. A model from random weights learns by sft to give each sum its right answer or
the next number, one as often as the other; every other method goes on from there and has to tell them apart.
The sums that are measured are those that are learnt: the figures say that a method optimises what it
should, not that the model can add.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from posttrain.runtime.events import read_events
from posttrain.runtime.home import Home
from posttrain.runtime.runs import last_run, product_of
from posttrain.runtime.store import Product

HERE = Path(__file__).parent
TEMPLATE = (HERE.parent / "tests/recipes/tiny/chat.jinja").read_text()
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
_RUNS = 3
_ABOUT = (
    "`python benchmarks/methods.py` made this page: a qwen2 of 2 layers and width 64 with random weights, 81"
    " sums of one-digit numbers, one thread of a CPU. The first stage learns the right answer and the next"
    " number alike; the others are to tell them apart."
)
_ABOUT_LEARNING = (
    f"The figure before is the mean of the first {_FIRST} steps, after that of the last {_LAST}. `right` is"
    " the share of sums that greedy completions get right, before the stage and after it."
)
_ABOUT_OVERHEAD = (
    "The same trainer with the same arguments in a script of its own, with as many checkpoints. Time is the"
    f" CPU's from the first step to the last, the least of {_RUNS} runs each; ours also seals checkpoints and"
    " writes events."
)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="posttrain-methods-"))
    home = run(folder)
    found = last_run(home)
    assert found is not None, "the recipe has run"
    products = {name: product_of(home, found, name) for name in measured()}
    lines = [*heading(), *learning(products), *overhead(home, found)]
    (HERE / "methods.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def measured() -> Iterator[str]:
    yield "before"
    for name in STAGES:
        yield name
        if name not in _SCORERS:
            yield f"{name}_right"


def run(folder: Path) -> Home:
    """Carry the whole recipe out with the command that users have."""
    lines = [f"  before: {{eval: base, {_MEASURED}}}"]
    for name, (start, what) in STAGES.items():
        train, _, rest = what.partition(", ")
        lines.append(f"  {name}: {{{train}, model: {start}, {rest}}}")
        if name not in _SCORERS:
            lines.append(f"  {name}_right: {{eval: {name}, {_MEASURED}}}")
    (folder / "recipe.yaml").write_text(RECIPE + "\n".join(lines) + "\n")
    (folder / "chat.jinja").write_text(TEMPLATE)
    command = [sys.executable, "-m", "posttrain.cli.main", "run", str(folder), "--home", str(folder / "home")]
    subprocess.run(command, check=True)
    return Home(folder / "home")


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


def learning(products: dict[str, Product | None]) -> list[str]:
    lines = [
        "## What each method learns",
        "",
        _ABOUT_LEARNING,
        "",
        "| stage | goes on from | method | figure | before | after | right before | right after | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (start, what) in STAGES.items():
        product = products[name]
        assert product is not None, f"{name} has run"
        method = what.split(",")[0].removeprefix("train: ")
        figure = FIGURES.get(method, "preference/margin")
        values = figures(product, figure)
        before, after = values[:_FIRST], values[-_LAST:]
        cells = [name, start, method, figure, f"{mean(before):.3f}", f"{mean(after):.3f}"]
        cells.append(right(products.get("before" if start == "base" else f"{start}_right")))
        cells.append(right(products.get(f"{name}_right")))
        lines.append(f"| {' | '.join(cells)} | {product.manifest['cost']['seconds']:.1f} |")
    return [*lines, ""]


def figures(product: Product, name: str) -> list[float]:
    events = read_events(product.record / "events.jsonl")
    return [e["values"][name] for e in events if e["kind"] == "metrics" and name in e["values"]]


def right(product: Product | None) -> str:
    return "" if product is None else f"{product.facts['metrics']['right']['value']:.2f}"


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def overhead(home: Home, found: Path) -> list[str]:
    """The same training by TRL alone, called by hand: its losses, and the time from step to step."""
    lines = [
        "## Beside TRL called by hand",
        "",
        _ABOUT_OVERHEAD,
        "",
        "| stage | steps | losses alike | by hand, CPU s | posttrain, CPU s | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for name in ("sft_more", "dpo"):
        product = product_of(home, found, name)
        assert product is not None, f"{name} has run"
        events = [e for e in read_events(product.record / "events.jsonl") if e["kind"] == "metrics"]
        losses = [e["values"]["loss"] for e in events]
        hand, ours = 1e9, 1e9
        for _ in range(_RUNS):
            alone = timed("--by-hand", home, product)
            assert alone["losses"] == losses, "called by hand, TRL has other losses"
            hand = min(hand, alone["seconds"])
            ours = min(ours, timed("--ours", home, product)["seconds"])
        lines.append(
            f"| {name} | {len(losses)} | all, to the last bit | {hand:.2f} | {ours:.2f} | {ours / hand:.3f} |"
        )
    return lines


def timed(how: str, home: Home, product: Product) -> dict[str, Any]:
    """Train in a process of its own, and give its losses and its time."""
    step = json.loads((product.record / "step.json").read_text())
    keys = {role: step["key_values"][f"input.{role}"]["key"] for role in ("model", "data")}
    inputs = {role: str(home.store.root / key / "files") for role, key in keys.items()}
    given = {"step": step, "inputs": inputs}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_TELEMETRY": "1"}
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, __file__, how, json.dumps(given)]
        done = subprocess.run(
            command,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=scratch,
            env=environment,
        )
    return json.loads(done.stdout.splitlines()[-1])


def train_here(given: dict[str, Any]) -> None:
    """Train as a worker does, with an eye on the clock at every step."""
    from posttrain.runtime import durable, worker
    from posttrain.runtime.events import EventWriter

    work, times = Path.cwd() / "work", list[float]()
    durable.write_json(work / "record" / "step.json", given["step"])
    durable.write_json(work / "job.json", {"attempt": 1, "inputs": given["inputs"], "files": {}})
    real = EventWriter.emit

    def emit(events: EventWriter, kind: str, **fields: Any) -> None:
        if kind == "metrics":
            times.append(time.process_time())
        real(events, kind, **fields)

    EventWriter.emit = emit
    assert worker.main(work) == 0, "the worker failed"
    print(json.dumps({"seconds": times[-1] - times[0]}))


def train_by_hand(given: dict[str, Any]) -> None:
    """Train as a script does that knows TRL and nothing else."""
    import pyarrow.parquet as parquet
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

    params, seed = given["step"]["params"]["params"], given["step"]["params"]["seed"]
    preference = given["step"]["params"]["method"] == "dpo"
    columns = ("prompt", "chosen", "rejected") if preference else ("prompt", "completion")
    roles = {"prompt": "user"}
    rows = parquet.read_table(Path(given["inputs"]["data"]) / "all.parquet").to_pylist()
    data = Dataset.from_dict(
        {c: [[{"role": roles.get(c, "assistant"), "content": row[c]}] for row in rows] for c in columns}
    )
    shared = {
        "output_dir": "out",
        "seed": seed,
        "data_seed": seed,
        "max_steps": params["steps"],
        "learning_rate": params["learning_rate"],
        "per_device_train_batch_size": params["batch"],
        "max_length": 64,
        "bf16": False,
        "gradient_checkpointing": False,
        "logging_steps": 1,
        "save_steps": params["steps"] // 4,
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }
    model = AutoModelForCausalLM.from_pretrained(given["inputs"]["model"])
    tokenizer = AutoTokenizer.from_pretrained(given["inputs"]["model"])
    config, trainer = (DPOConfig, DPOTrainer) if preference else (SFTConfig, SFTTrainer)
    times: list[float] = []

    class Clock(TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            times.append(time.process_time())

    made = trainer(model=model, args=config(**shared), train_dataset=data, processing_class=tokenizer)
    made.add_callback(Clock())
    made.train()
    losses = [entry["loss"] for entry in made.state.log_history if "loss" in entry]
    print(json.dumps({"losses": losses, "seconds": times[len(losses) - 1] - times[0]}))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--by-hand", given]:
            train_by_hand(json.loads(given))
        case ["--ours", given]:
            train_here(json.loads(given))
        case _:
            main()
