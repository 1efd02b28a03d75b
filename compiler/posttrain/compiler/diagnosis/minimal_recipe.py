"""The minimal recipe on which the examples of diagnostic pages are based."""

MINIMAL_INIT = (
    "    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}\n"
)
# The model without its name.
MINIMAL_MODEL = f"{MINIMAL_INIT}    tokenizer: {{init: characters}}\n"
MINIMAL_RECIPE = f"""\
recipe: 1
name: demo
models:
  base:
{MINIMAL_MODEL}datasets:
  sums:
    from: {{arithmetic: {{digits: 2, count: 200}}}}
    steps:
      - split: {{test: 100}}
rewards:
  right:
    reads: {{completion: text, answer: text}}
    returns: {{score: {{when: {{math_equal: {{of: completion, to: answer}}}}, then: 1.0}}}}
stages:
  sft: {{train: sft, model: base, data: sums.train, params: {{epochs: 1, batch_size: 4}}}}
  check: {{eval: sft, data: sums.test, reward: right, metrics: {{score: {{mean: returns}}}}}}
"""


def minimal_recipe(*changes: tuple[str, str]) -> str:
    """The minimal recipe with replaced parts."""
    text = MINIMAL_RECIPE
    for old, new in changes:
        assert old in text, f"the example has no {old!r}"
        text = text.replace(old, new)
    return text
