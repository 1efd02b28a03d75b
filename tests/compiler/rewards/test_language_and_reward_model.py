"""Tests the diagnostics of the ops that use a language model or a reward model."""

from typing import Any

import pytest
from tests.runtime.rewards.reward_compilation import compile_yaml_reward

from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.pipeline import CompileResult, compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.column_types import Interval


def language(**params: object) -> dict[str, object]:
    node = {"language": {"of": "completion", **params}}
    returns = {"score": {"when": {"equal": {"of": node, "to": {"text": "en"}}}}}
    return {"reads": {"completion": "text"}, "returns": returns}


def test_a_language_is_text_and_its_test_a_condition():
    found = compile_yaml_reward(language(languages=["en", "zh"], min_probability=0.8))
    assert found.diagnostics == ()
    assert found.graph is not None
    assert found.graph.types["returns.when.of"] == "text"
    assert found.graph.nodes[0]["params"] == {
        "languages": ["en", "zh"],
        "min_probability": 0.8,
        "prose_only": True,
    }


@pytest.mark.parametrize(
    ("params", "code", "message"),
    [
        ({"languages": ["en", "english"]}, "PT0504", "unsupported language `english`"),
        ({"min_probability": 1.5}, "PT0204", "1.5"),
        ({"langs": ["en"]}, "PT0201", "unknown key `langs`"),
    ],
)
def test_a_mistaken_parameter_is_told_at_its_place(params: dict[str, object], code: str, message: str):
    (diagnostic,) = compile_yaml_reward(language(**params)).diagnostics
    assert (diagnostic.code, message in diagnostic.message) == (code, True), diagnostic


def test_a_language_is_no_number():
    found = compile_yaml_reward({"reads": {"completion": "text"}, "returns": {"language": "completion"}})
    assert [diagnostic.code for diagnostic in found.diagnostics] == ["PT0503"]


_RETURNS = "{score: {when: {math_equal: {of: completion, to: answer}}, then: 1.0}}"
_STAGES = (
    "{train: sft, model: base, data: sums.train}\n"
    "  rm: {train: reward_model, model: base, data: sums.train}\n"
    "  out: {export: sft}"
)


def compile_reward_recipe(returns: str, *changes: tuple[str, str]) -> CompileResult:
    text = training_example(_STAGES).replace(_RETURNS, returns)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    read: Any = {}.get
    return compile_recipe(
        CompileRequest(source=SourceFile("recipe.yaml", text.encode()), catalog=CATALOG, read=read)
    )


def inputs(found: CompileResult, step: str) -> dict[str, str]:
    assert found.plan is not None, found.diagnostics
    return {role: given.step for role, given in found.plan.step(step).inputs.items()}


def test_a_scorer_s_range_is_open_until_something_closes_it():
    node = {"reward_model": {"of": "completion", "model": "rm"}}
    clipped = {"clip": {"of": node, "low": -2, "high": 3}}
    for returns, reach in ((node, Interval.unbounded()), (clipped, Interval(-2.0, 3.0))):
        found = compile_yaml_reward({"reads": {"completion": "text"}, "returns": returns})
        assert found.diagnostics == ()
        assert found.graph is not None
        assert found.graph.range == reach


@pytest.mark.parametrize(
    "returns",
    [
        "NODE",
        "{clip: {of: NODE, low: 0, high: 1}}",
        "{clip: {low: 0, high: 1, of: {sum: [1, NODE]}}}",
        "{cases: {of: [{when: {present: completion}, then: NODE}], otherwise: 0}}",
        "{python: {call: f.py:g, with: {text: NODE}}}",
    ],
)
def test_a_scorer_is_found_wherever_its_node_stands(returns: str):
    def read(name: str) -> bytes | None:
        return b"def g(text): return text" if name == "f.py" else None

    written = returns.replace("NODE", "{reward_model: {of: completion, model: rm}}")
    text = training_example(_STAGES).replace(_RETURNS, written)
    request = CompileRequest(source=SourceFile("recipe.yaml", text.encode()), catalog=CATALOG, read=read)
    found = compile_recipe(request)
    assert inputs(found, "check") == {"model": "sft", "data": "datasets.sums", "reward:rm": "rm"}
    assert found.plan is not None
    order = [step.id for step in found.plan.steps]
    assert order.index("rm") < order.index("check")


def test_a_scorer_may_be_declared_and_is_then_made():
    scorer = "models:\n  liking: {from: some/scorer, revision: 7ae557604adf67be50417f59c2c2f167def9a775}\n"
    found = compile_reward_recipe("{reward_model: {of: completion, model: liking}}", ("models:\n", scorer))
    assert inputs(found, "check")["reward:liking"] == "models.liking"


@pytest.mark.parametrize(
    ("model", "code", "message"),
    [
        ("rn", "PT0301", "unknown name `rn`"),
        ("sums", "PT0302", "expected a model, but the dataset `sums` produces rows"),
        ("base", "PT0654", "the reward scores with `base`, which is not a reward model"),
        ("sft", "PT0654", "the reward scores with `sft`, which is not a reward model"),
        ("out", "PT0654", "which is not a reward model"),
    ],
)
def test_a_name_that_does_not_score_is_told(model: str, code: str, message: str):
    found = compile_reward_recipe(f"{{reward_model: {{of: completion, model: {model}}}}}")
    reported = [diagnostic for diagnostic in found.diagnostics if diagnostic.code == code]
    assert [message in diagnostic.message for diagnostic in reported] == [True], found.diagnostics
    place = reported[0].span
    assert place.line == 16, place  # a field of the node


def test_a_stage_cannot_be_rewarded_by_what_it_makes():
    grpo = "{train: grpo, model: sft, data: sums.train, reward: right}"
    found = compile_reward_recipe(
        "{reward_model: {of: completion, model: rm}}",
        (
            "  rm: {train: reward_model, model: base,",
            f"  rl: {grpo}\n  rm: {{train: reward_model, model: rl,",
        ),
    )
    assert "PT0303" in [diagnostic.code for diagnostic in found.diagnostics]


def test_exports_that_name_each_other_are_a_circle_and_no_hang():
    found = compile_reward_recipe(
        "{reward_model: {of: completion, model: out}}", ("{export: sft}", "{export: in}\n  in: {export: out}")
    )
    assert "PT0303" in [diagnostic.code for diagnostic in found.diagnostics]
