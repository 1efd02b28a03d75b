"""Generates large recipes: a matrix with about the requested number of steps, and a chain of stages."""

from pathlib import Path

_HEAD = """\
recipe: 1
name: {name}
{matrix}models:
  base:
    init: {{model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}}
    tokenizer: {{init: characters}}
datasets:
  sums:
    from: {{arithmetic: {{digits: 2, count: 2000}}}}
    steps:
      - split: {{test: 100}}
"""
_MATRIX = """\
rewards:
  right:
    reads: {completion: text, answer: text}
    returns: {score: {when: {math_equal: {of: completion, to: answer}}, then: 1.0}}
stages:
  sft:
    train: sft
    model: base
    data: sums.train
    params: {epochs: 1, batch_size: "${matrix.batch}", learning_rate: "${matrix.rate}"}
  check: {eval: sft, data: sums.test, reward: right, metrics: {accuracy: returns}}
  grpo:
    train: grpo
    model: sft
    data: sums.train
    reward: right
    params: {max_steps: 10, learning_rate: "${matrix.rate}", max_completion_length: 32}
  after: {eval: grpo, data: sums.test, reward: right, metrics: {accuracy: returns}}
  ship: {gate: [{metric: after.accuracy, better_than: check.accuracy}]}
"""
_BATCHES = (2, 4, 8, 16, 32)
_STEPS_A_LEG = 5


def write_matrix_recipe(folder: Path, steps: int) -> Path:
    """A sweep over learning rates and batch sizes."""
    rates = ", ".join(f"{1e-4 * (1 + n / 10):.6f}" for n in range(steps // _STEPS_A_LEG // len(_BATCHES)))
    batches = ", ".join(map(str, _BATCHES))
    head = _HEAD.format(name="sweep", matrix=f"matrix: {{rate: [{rates}], batch: [{batches}]}}\n")
    return _write_recipe(folder / f"matrix-{steps}", head + _MATRIX)


def write_chain_recipe(folder: Path, stages: int) -> Path:
    """Stages, each of which trains the product of the previous one."""
    lines = ["stages:"]
    for n in range(stages):
        model = f"s{n - 1}" if n else "base"
        lines.append(
            f"  s{n}: {{train: sft, model: {model}, data: sums.train, params: {{epochs: 1, batch_size: 4}}}}"
        )
    head = _HEAD.format(name="chain", matrix="")
    return _write_recipe(folder / f"chain-{stages}", head + "\n".join(lines) + "\n")


def _write_recipe(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(text)
    return folder
