"""The recipe of the method measurements: a small model, sums, and a reward for the correct answer."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tool_rows import tool_rows

from posttrain.runtime.store.home import Home
from posttrain.runtime.store.products import Product
from posttrain.runtime.store.runs import find_step_product, last_run

HERE = Path(__file__).parent
TEMPLATE = (HERE.parent / "tests/recipes/tiny/chat.jinja").read_text()
SMALL = "num_hidden_layers: 2, hidden_size: 64"  # the model of the recipe
LARGER = "num_hidden_layers: 4, hidden_size: 256"
RECIPE = """\
recipe: 1
name: methods
seed: 5
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4,
        max_position_embeddings: 64, initializer_range: 0.06, tie_word_embeddings: false}
    tokenizer: {init: characters, alphabet: "0123456789+=", added_tokens: [<answer>, </answer>]}
    chat_template: chat.jinja
  caller:
    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4,
        max_position_embeddings: 1024, initializer_range: 0.06, tie_word_embeddings: false}
    tokenizer: {init: characters}
    chat_template: chatml
datasets:
  calls: {from: {rows: TOOL_ROWS}}
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
EVAL_OPTIONS = (
    "data: sums, reward: right, metrics: {right: returns}, sampling: {max_tokens: 6, batch_size: 81}"
)
PREFERENCE_TRAINING = "data: sums, params: {max_steps: 60, learning_rate: 5.0e-4, batch_size: 27}"
REWARD_TRAINING = (
    "data: sums, reward: right, params: {max_steps: 80, num_prompts: 9, num_generations: 8, learning_rate:"
    " 5.0e-4, max_completion_length: 6}"
)
# The same number of completions and rollouts; each is used twice.
PPO_TRAINING = (
    "data: sums, reward: right, params: {max_steps: 160, batch_size: 72, num_ppo_epochs: 2, learning_rate:"
    " 5.0e-4, max_completion_length: 6}"
)
# The stage that all others start from.
SFT_TRAINING = "train: sft, data: both, params: {max_steps: 150, learning_rate: 3.0e-3, batch_size: 27}"


def run_stages(stages: Mapping[str, str], size: str = SMALL) -> Home:
    """Run a recipe with these stages with the `recipe` command."""
    folder = write_recipe(stages, size)
    command = [sys.executable, "-m", "posttrain.cli.main", "run", str(folder), "--home", str(folder / "home")]
    subprocess.run(command, check=True)
    return Home(folder / "home")


def write_recipe(stages: Mapping[str, str], size: str = SMALL) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="posttrain-methods-"))
    lines = [f"  {name}: {{{what}}}" for name, what in stages.items()]
    recipe = RECIPE.replace(SMALL, size).replace("TOOL_ROWS", tool_rows())
    (folder / "recipe.yaml").write_text(recipe + "\n".join(lines) + "\n")
    (folder / "chat.jinja").write_text(TEMPLATE)
    return folder


def train_from(start: str, what: str) -> str:
    train, _, rest = what.partition(", ")
    return f"{train}, model: {start}, {rest}"


def load_products(home: Home, names: Iterator[str]) -> dict[str, Product]:
    found = last_run(home)
    assert found is not None, "the recipe has run"
    made = {name: find_step_product(home, found, name) for name in names}
    return {name: product for name, product in made.items() if product is not None}
