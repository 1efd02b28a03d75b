"""Every form of a condition in every place that takes one: what compiles can also be measured."""

from typing import Any

import pytest

from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.rewards.reward_codes import CONSTANT_REWARD
from posttrain.compiler.stages.eval_stage import BAD_METRIC
from posttrain.compiler.stages.gate_stage import UNREACHABLE_THRESHOLD
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.evaluation import metric_tables
from posttrain.runtime.evaluation.score_completions import score_rows
from posttrain.runtime.plan_params import read_step_params
from posttrain.runtime.rewards.engine.graph import Graph
from posttrain.spec.diagnostic import Diagnostic
from posttrain.spec.plan import Plan

ROWS = [
    {"item": 0, "completion": "yes", "finish": "stop", "b0": True, "answer": "yes"},
    {"item": 1, "completion": "no", "finish": "length", "b0": False, "answer": "yes"},
    {"item": 2, "completion": "yes", "finish": "stop", "b0": True, "answer": "no"},
    {"item": 3, "completion": None, "finish": "timeout", "b0": True, "answer": "no"},
]
# A condition by its form, with the share of the three answered rows in which it holds.
CONDITIONS: dict[str, tuple[str, float]] = {
    "a column": ("b0", 2 / 3),
    "another name of a column": ("flag", 2 / 3),
    "a node": ("same", 1 / 3),
    "another name of a node": ("also", 1 / 3),
    "a constant": ("true", 1.0),
    "another name of a constant": ("always", 1.0),
    "an op": ("{equal: {of: completion, to: answer}}", 1 / 3),
    "an op on a column": ("{not: b0}", 1 / 3),
    "ops in ops": ("{all: [b0, {any: [flag, {not: same}]}]}", 2 / 3),
}
# The places in the language, as the node `it`. `SHAPE` stands for the condition.
PLACES = {
    "score": "{score: SHAPE}",
    "score.when": "{score: {when: SHAPE, then: 1.0, else: 0.0}}",
    "gate.when": "{gate: {when: SHAPE, of: 1.0}}",
    "cases.when": "{cases: {of: [{when: SHAPE, then: 1.0}], otherwise: 0.0}}",
    "all": "{all: [SHAPE]}",
    "any": "{any: [SHAPE]}",
    "not": "{not: {not: SHAPE}}",
    "the node": "SHAPE",
}
METRICS = ("it", "{rate: it}", "{mean: it}", "{pass_at: {node: it, k: 1}}")
RECIPE = """\
recipe: 1
name: shapes
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}
    tokenizer: {init: characters}
datasets:
  sums:
    from: {arithmetic: {digits: 2, count: 200}}
    steps:
      - derive: {b0: "length(answer) > 1"}
      - where: "WHERE"
rewards:
  graded:
    reads: {completion: text, answer: text, b0: boolean}
    nodes:
      flag: b0
      same: {equal: {of: completion, to: answer}}
      also: same
      always: true
      it: NODE
    returns: RETURNS
stages:
  check: {eval: base, data: sums, reward: graded, metrics: {m: METRIC}}
  ship: {gate: [{metric: check.m, at_least: 0.5}], on_fail: warn}
"""


def compiled(**parts: str) -> tuple[Plan | None, list[Diagnostic]]:
    text = RECIPE
    for name, value in {"WHERE": "b0", "RETURNS": "{score: same}", **parts}.items():
        text = text.replace(name, value)
    source = SourceFile("recipe.yaml", text.encode())
    found = compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=lambda _: None))
    return found.plan, [one for one in found.diagnostics if one.severity == "error"]


def measured(plan: Plan) -> Any:
    """The metric `m` of the eval, computed as the stage does after it has sampled."""
    (step,) = [step for step in plan.steps if step.kind == "eval"]
    params: Any = read_step_params(step)
    flat = [dict(row) for row in ROWS]
    graph = Graph.from_plan(params.reward, {}, params.access)
    score_rows(flat, graph)
    metric_tables.add_rates(flat, graph.returns)
    metrics = metric_tables.add_pass_at_k(flat, metric_tables.metric_records(params.metrics))
    return metric_tables.measure_metrics(flat, metrics, seed=1)["m"]


@pytest.mark.parametrize("form", CONDITIONS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("metric", METRICS)
def test_a_condition_that_compiles_is_measured(form: str, place: str, metric: str):
    shape, share = CONDITIONS[form]
    plan, errors = compiled(NODE=PLACES[place].replace("SHAPE", shape), METRIC=metric)
    if plan is None:
        refused = {one.code for one in errors}
        assert refused in ({BAD_METRIC.id}, {UNREACHABLE_THRESHOLD.id}), errors
        # A constant measures nothing, and only a condition has a rate.
        numeric = place in ("gate.when", "cases.when") and metric in (METRICS[1], METRICS[3])
        assert "constant" in form or numeric, errors
        return
    result = measured(plan)
    assert result["value"] == pytest.approx(share)
    assert (result["items"], result["unscored"]) == (3, 1)


@pytest.mark.parametrize("form", CONDITIONS)
@pytest.mark.parametrize("place", ["score", "gate.when", "cases.when"])
def test_a_reward_of_any_form_is_measured(form: str, place: str):
    shape, share = CONDITIONS[form]
    returns = PLACES[place].replace("SHAPE", shape)
    plan, errors = compiled(NODE="0.5", RETURNS=returns, METRIC="{mean: returns}")
    if plan is None:
        refused = {one.code for one in errors}
        assert "constant" in form, errors
        assert refused == {CONSTANT_REWARD.id, UNREACHABLE_THRESHOLD.id}, errors
        return
    assert measured(plan)["value"] == pytest.approx(share)


@pytest.mark.parametrize("name", ["b0", "flag", "same", "also", "returns"])
@pytest.mark.parametrize("metric", ["NAME", "{mean: NAME}", "{rate: NAME}", "{pass_at: {node: NAME, k: 1}}"])
def test_every_name_of_a_graph_is_a_metric(name: str, metric: str):
    plan, errors = compiled(NODE="0.5", METRIC=metric.replace("NAME", name))
    assert plan is not None, errors
    assert measured(plan)["value"] == pytest.approx(2 / 3 if name in ("b0", "flag") else 1 / 3)


@pytest.mark.parametrize("name", ["it", "always", "completion"])
def test_a_name_that_measures_nothing_is_refused_for_that_reason(name: str):
    plan, errors = compiled(NODE="0.5", METRIC=name)
    assert plan is None
    assert "constant" in errors[0].message or "has no mean" in errors[0].message


@pytest.mark.parametrize(
    "where", ["b0", "NOT b0", "true", "b0 AND length(answer) > 1", "(b0)", "coalesce(b0, false)"]
)
def test_a_filter_is_any_boolean_expression(where: str):
    plan, errors = compiled(NODE="0.5", METRIC="b0", WHERE=where)
    assert plan is not None, errors


@pytest.mark.parametrize("where", ["answer", "1", "length(answer)"])
def test_a_filter_that_is_no_condition_is_refused(where: str):
    plan, errors = compiled(NODE="0.5", METRIC="b0", WHERE=where)
    assert plan is None
    assert errors
