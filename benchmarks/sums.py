"""The recipe that the methods are measured by: a small model, sums, and a reward for the right answer."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from posttrain.runtime.keeping.home import Home
from posttrain.runtime.keeping.runs import last_run, product_of
from posttrain.runtime.keeping.store import Product

HERE = Path(__file__).parent
TEMPLATE = (HERE.parent / "tests/recipes/tiny/chat.jinja").read_text()
SMALL = "layers: 2, hidden: 64"  # as the recipe has it
LARGER = "layers: 4, hidden: 256"
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
MEASURED = "data: sums, reward: right, metrics: {right: returns}, sampling: {max_tokens: 6, batch: 81}"
PAIRS = "data: sums, params: {steps: 60, learning_rate: 5.0e-4, batch: 27}"
REWARDED = (
    "data: sums, reward: right, params: {steps: 80, prompts: 9, generations: 8, learning_rate: 5.0e-4,"
    " max_tokens: 6}"
)
# As many completions in as many sets; each is learnt from twice.
VALUED = (
    "data: sums, reward: right, params: {steps: 160, batch: 72, iterations: 2, learning_rate: 5.0e-4,"
    " max_tokens: 6}"
)
# What all others go on from.
SFT = "train: sft, data: both, params: {steps: 150, learning_rate: 3.0e-3, batch: 27}"


def run(stages: Mapping[str, str], size: str = SMALL) -> Home:
    """Carry a recipe of these stages out with the command that users have."""
    folder = folder_of(stages, size)
    command = [sys.executable, "-m", "posttrain.cli.main", "run", str(folder), "--home", str(folder / "home")]
    subprocess.run(command, check=True)
    return Home(folder / "home")


def folder_of(stages: Mapping[str, str], size: str = SMALL) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="posttrain-methods-"))
    lines = [f"  {name}: {{{what}}}" for name, what in stages.items()]
    recipe = RECIPE.replace(SMALL, size)
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
