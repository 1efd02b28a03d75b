"""A recipe in which a randomly initialized model learns to guess a number in two turns."""

RECIPE = """\
recipe: 1
name: guesses
seed: 5
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2,
        max_position_embeddings: 32, initializer_range: 0.06, tie_word_embeddings: false}
    tokenizer: {init: characters, alphabet: "123?<>"}CHAT
datasets:
  numbers:
    from: {arithmetic: {digits: 1, count: 81, seed: 1}}
    steps:
      - derive: {target: "1 + length(prompt || answer) % 2 + CAST(answer AS INTEGER) % 2", prompt: "'?'"}
environments:
  hidden: ENVIRONMENT
rewards:
  found:
    reads: {completion: text}
    nodes:
      solved: {environment: {metric: solved}}
      turns: {environment: {metric: turns}}
      score: {environment: {metric: score}}
    returns: score
stages:
  before: {eval: base, environment: hidden, data: numbers, reward: found, METRICS}
  grpo: {train: METHOD, model: base, environment: hidden, data: numbers, reward: found, params: {PARAMS}}
  after: {eval: grpo, environment: hidden, data: numbers, reward: found, METRICS}
"""
GUESS = (
    "{type: guess, params: {low: 1, high: 3, below: '<', above: '>', invalid_message: '?'}, max_turns: 2,"
    " max_turn_tokens: TOKENS, observation_template: '{observation}'}"
)
PARAMS = "max_steps: 40, num_prompts: 8, num_generations: 8, learning_rate: 1.0e-2, max_completion_length: 8"
METRICS = (
    "metrics: {success: solved, turns: {mean: turns}, score: {mean: score}},"
    " sampling: {temperature: 1.0, max_tokens: 16}"
)


def episode_recipe(
    environment: str = GUESS,
    params: str = PARAMS,
    *,
    tokens: int = 1,
    chat: bool = False,
    method: str = "grpo",
) -> str:
    """The recipe. The training stage is named `grpo` for every method."""
    text = RECIPE.replace("ENVIRONMENT", environment).replace("TOKENS", str(tokens))
    text = text.replace("METHOD", method)
    text = text.replace("CHAT", "\n    chat_template: chat.jinja" if chat else "")
    return text.replace("PARAMS", params).replace("METRICS", METRICS)
