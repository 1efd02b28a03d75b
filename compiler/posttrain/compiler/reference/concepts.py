"""Explanations of terms that are not keys of the language, such as LoRA and vLLM."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Concept:
    """A short explanation, and the topic that follows it."""

    text: str
    topic: str


_EXPRESSION = """\
An SQL expression over the columns of a dataset. Several data steps take one: `where` keeps the rows for which
it is true, `derive` computes a column, and `sort` orders the rows by it. DuckDB evaluates the expression.

```yaml
datasets:
  NAME:
    from: {files: {path: rows.jsonl, columns: {prompt: text, answer: text}}}
    steps:
      - where: "length(answer) <= 3 AND prompt NOT LIKE '%http%'"
      - derive: {question: "'Question: ' || prompt", answer: "trim(answer)"}
```

Strings take single quotes, column names double quotes where they need any. Column types are checked when the
recipe is compiled. Aggregates, subqueries, files and the network are not available."""

CONCEPTS: Mapping[str, Concept] = {
    "lora": Concept(
        "LoRA trains small low-rank matrices next to frozen weights. Write `adapter: {type: lora}` in a"
        " model, or in one training stage.",
        "models.adapter",
    ),
    "qlora": Concept(
        "QLoRA trains a LoRA over weights that are quantized to 4 bits. Write `adapter: {type: qlora}` in a"
        " model, or in one training stage.",
        "models.adapter",
    ),
    "peft": Concept("Parameter-efficient training: an adapter instead of all weights.", "models.adapter"),
    "vllm": Concept(
        "vLLM generates completions: in evals with `engine: vllm`, in training with `placement: {rollouts:"
        " {engine: vllm}}`. On GPUs it is the default.",
        "stages.train.placement.rollouts",
    ),
    "expression": Concept(_EXPRESSION, ""),
    "sql": Concept(_EXPRESSION, ""),
}
