"""Rows that a model is trained, prompted or selected on, and evaluated on."""

import pytest

from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG

RECIPE = """\
recipe: 1
name: demo
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}
    tokenizer: {init: characters}
datasets:
  sums: {from: {arithmetic: {digits: 2, count: 2000}}}
  a: {from: sums, steps: [{split: {test: 400, valid: 400}}]}
  b: {from: sums, steps: [{split: {test: 400}}]}
  copy: {from: {arithmetic: {digits: 2, count: 2000}}, steps: [{split: {test: 400}}]}
  other: {from: {arithmetic: {digits: 2, count: 2000, seed: 9}}, steps: [{split: {test: 400}}]}
  short: {from: sums, steps: [{where: length(prompt) < 5}]}
  long: {from: sums, steps: [{where: length(prompt) >= 5}]}
  clean: {from: sums, steps: [{decontaminate: {against: b.test, columns: prompt}}]}
  mixed: {from: other.train, steps: [{mix: {a.test: 10}}]}
  again: {from: made, steps: [{select: [prompt, completion, answer]}]}
rewards:
  right:
    reads: {completion: text, answer: text}
    returns: {score: {when: {math_equal: {of: completion, to: answer}}, then: 1.0}}
stages:
  made: {generate: base, data: a.test, engine: transformers}
  sft: {train: sft, model: base, data: TRAIN, params: {epochs: 1, batch_size: 4} INLOOP}
  dpo: {train: sft, model: sft, data: other.train, params: {epochs: 1, batch_size: 4}}
  check: {eval: dpo, data: EVAL, reward: right, metrics: {accuracy: returns} SHOTS}
  valid: {eval: base, data: a.valid, reward: right, metrics: {accuracy: returns}}
  ship: {gate: [{metric: check.accuracy, at_least: 0.5}], on_inconclusive: warn}
"""
LEAKAGE = ("PT0412", "PT0413", "PT0664")


def found(train: str, evaluated: str, shots: str = "", inloop: str = "") -> list[tuple[str, str]]:
    text = RECIPE.replace("TRAIN", train).replace("EVAL", evaluated)
    text = text.replace(" SHOTS", f", {shots}" if shots else "").replace(
        " INLOOP", f", {inloop}" if inloop else ""
    )
    source = SourceFile("recipe.yaml", text.encode())
    request = CompileRequest(source=source, catalog=CATALOG, read=lambda _: None)
    result = compile_recipe(request).diagnostics
    errors = [(one.code, one.message) for one in result if one.severity == "error"]
    unexpected = [error for error in errors if error[0] not in LEAKAGE]
    assert not unexpected
    return [(one.code, one.message) for one in result if one.code in LEAKAGE]


@pytest.mark.parametrize(
    ("train", "evaluated", "origin"),
    [
        ("a.train", "a.train", "a"),
        ("a.train", "b.test", "sums"),
        ("a.train", "copy.test", "sums"),
        ("sums", "a.test", "sums"),
        ("short", "a.test", "sums"),
        ("mixed", "a.test", "a"),
        ("again", "a.test", "a"),
    ],
)
def test_evaluated_rows_that_the_lineage_trained_on_are_reported(train: str, evaluated: str, origin: str):
    message = f"`check` evaluates on rows that `sft` trains on, from `{origin}`"
    assert found(train, evaluated) == [("PT0413", message)]


@pytest.mark.parametrize(
    ("train", "evaluated"),
    [
        ("a.train", "a.test"),
        ("a.train", "other.test"),
        ("short", "long"),
        ("clean", "b.test"),
        ("mixed", "a.valid"),
        ("again", "a.valid"),
    ],
)
def test_separate_rows_are_not_reported(train: str, evaluated: str):
    assert found(train, evaluated) == []


def test_few_shot_examples_among_the_evaluated_rows_are_reported():
    shots = "few_shot: {data: b.train, num_fewshot: 2}"
    message = "the few-shot examples of `check` are among the rows that it evaluates, from `sums`"
    assert found("other.train", "a.test", shots) == [("PT0413", message)]
    assert found("other.train", "a.test", shots.replace("b.train", "a.valid")) == []


def test_an_inloop_eval_on_training_rows_is_reported():
    inloop = "evaluate: {eval_steps: 10, evals: [valid]}"
    message = "`valid` evaluates `sft` on rows that it trains on, from `sums`"
    assert found("b.train", "other.test", inloop=inloop) == [("PT0413", message)]
    assert found("a.train", "other.test", inloop=inloop) == []


@pytest.mark.parametrize("selection", ["keep: best", "early_stopping_patience: 2"])
def test_a_checkpoint_selected_on_the_rows_of_a_gate_is_reported(selection: str):
    inloop = f"evaluate: {{eval_steps: 10, evals: [NAME], metric_for_best_model: NAME.accuracy, {selection}}}"
    ((code, message),) = found("a.train", "a.test", inloop=inloop.replace("NAME", "check"))
    assert code == "PT0664"
    assert "`sft` selects its checkpoint on the rows of `check`" in message
    assert found("a.train", "a.test", inloop=inloop.replace("NAME", "valid")) == []


def test_all_parts_of_a_split_dataset_cannot_be_meant_without_a_name():
    codes = [code for code, _ in found("a", "other.test")]
    assert codes == ["PT0412"]
    assert "`a` is split: without a part, its train and test and valid rows" in found("a", "other.test")[0][1]
    assert [code for code, _ in found("a.train", "other")] == ["PT0412", "PT0413"]
    shots = "few_shot: {data: a, num_fewshot: 2}"
    assert "PT0412" in [code for code, _ in found("other.train", "a.test", shots)]


@pytest.mark.parametrize(("rows", "codes"), [("a.test", []), ("b.test", ["PT0413"]), ("a.train", ["PT0413"])])
def test_held_out_rows_among_the_training_rows(rows: str, codes: list[str]) -> None:
    reported = found("a.train", "other.test", inloop=f"evaluate: {{eval_steps: 5, data: {rows}}}")
    assert [code for code, _ in reported if code != "PT0664"] == codes


@pytest.mark.parametrize(("rows", "codes"), [("a.test", ["PT0664"]), ("a.valid", [])])
def test_a_gate_on_the_rows_that_select_the_checkpoint(rows: str, codes: list[str]) -> None:
    select = f"evaluate: {{eval_steps: 5, data: {rows}, metric_for_best_model: eval_loss, keep: best}}"
    assert [code for code, _ in found("a.train", "a.test", inloop=select)] == codes
