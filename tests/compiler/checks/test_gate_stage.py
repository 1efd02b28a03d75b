"""Tests gates in the compiler: whether the rows can decide them, and what runs in each branch."""

from typing import Any

import pytest

from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.plan import Plan

SCORED = "  check: {eval: sft, data: sums.test, reward: right, metrics: {score: {mean: returns}}}\n"


def compile_gate(gate: str, *stages: str, rows: int = 100, samples: int = 1) -> Any:
    """Return a recipe with this gate over `check` and `first`, which evaluate the same rows, and later
    stages."""
    sampling = f"sampling: {{n: {samples}, temperature: {float(samples > 1)}}}"
    metrics = f"reward: right, metrics: {{accuracy: returns, score: {{mean: returns}}}}, {sampling}"
    text = minimal_recipe(
        (
            SCORED,
            f"  first: {{eval: base, data: sums.test, {metrics}}}\n"
            f"  check: {{eval: sft, data: sums.test, {metrics}}}\n"
            f"  ship: {{gate: {gate}}}\n" + "".join(f"  {stage}\n" for stage in stages),
        ),
        ("count: 200", f"count: {rows + 100}"),
        ("test: 100", f"test: {rows}"),
    )
    request = CompileRequest(
        source=SourceFile("recipe.yaml", text.encode()), catalog=CATALOG, read=lambda _: None
    )
    return compile_recipe(request)


def gate_diagnostics(gate: str, **given: Any) -> list[tuple[str, str, str]]:
    return [(one.code, one.message, one.help) for one in compile_gate(gate, **given).diagnostics]


def one_condition(condition: str) -> str:
    return f"[{{metric: check.accuracy, {condition}}}]"


@pytest.mark.parametrize(
    ("condition", "rows", "code", "help"),
    [
        ("at_least: 0.8", 17, None, ""),
        ("at_least: 0.8", 16, "PT0704", "at least 17 items are needed"),
        ("at_most: 0.02", 100, "PT0704", "at least 189 items are needed"),
        ("at_least: 1.0", 100, "PT0704", "no number of items is enough"),
        ("at_least: 0.8, min_detectable_effect: 0.1", 100, "PT0707", "at least 113 items are needed"),
        ("at_least: 0.8, min_detectable_effect: 0.1", 113, None, ""),
        ("at_most: 0.2, min_detectable_effect: 0.1", 100, "PT0707", "at least 113 items are needed"),
        ("at_least: 0.8, min_detectable_effect: 0.3", 100, "PT0707", ""),
        ("better_than: first.accuracy", 5, "PT0704", "at least 6 items are needed"),
        ("better_than: first.accuracy", 6, None, ""),
        (
            "better_than: first.accuracy, min_detectable_effect: 0.05",
            600,
            "PT0707",
            "at least 622 items are needed",
        ),
        ("better_than: first.accuracy, min_detectable_effect: 0.05", 622, None, ""),
        (
            "better_than: first.accuracy, min_detectable_effect: 0.05, expected_disagreement: 0.4",
            626,
            "PT0707",
            "at least 1,256 items are needed",
        ),
        ("better_than: first.accuracy, margin: 0.9", 100, None, ""),
        ("better_than: first.accuracy, margin: 0.99", 100, "PT0704", "at least 737 items are needed"),
        ("better_than: first.accuracy, margin: -0.05", 100, "PT0708", "at least 645 items are needed"),
        ("better_than: first.accuracy, margin: -0.05", 645, None, ""),
        ("better_than: first.accuracy, margin: -0.05, min_detectable_effect: 0.15", 100, None, ""),
    ],
)
def test_rows_that_cannot_decide(condition: str, rows: int, code: str | None, help: str):
    seen = gate_diagnostics(one_condition(condition), rows=rows)
    assert [one[0] for one in seen] == ([code] if code else [])
    if help:
        assert seen[0][2] == help


def test_several_completions_may_tell_as_much_as_prompts():
    assert (
        gate_diagnostics(one_condition("at_least: 0.8, min_detectable_effect: 0.1"), rows=30, samples=4) == []
    )
    assert gate_diagnostics(one_condition("at_least: 0.98"), rows=100, samples=4)[0][0] == "PT0704"


@pytest.mark.parametrize(
    ("condition", "needed"),
    [
        ("at_least: 0.8", 17),
        ("at_most: 0.2", 17),
        ("better_than: first.score", 6),
        ("better_than: first.score, margin: 0.5", 13),
        ("better_than: first.score, margin: -0.5", 3),
    ],
)
def test_rows_that_cannot_decide_a_mean(condition: str, needed: int):
    """The smallest n with share^n at most 0.025, which is the p-value of n items at the end of the range."""
    gate = f"[{{metric: check.score, {condition}}}]"
    assert gate_diagnostics(gate, rows=needed) == []
    ((code, _, help),) = gate_diagnostics(gate, rows=needed - 1)
    assert (code, help) == ("PT0704", f"at least {needed} items are needed")


def test_a_mean_at_the_end_of_its_range_cannot_be_shown():
    ((code, _, help),) = gate_diagnostics("[{metric: check.score, at_least: 1.0}]")
    assert (code, help) == ("PT0704", "no number of items is enough")


def test_no_effect_of_a_mean_can_be_promised():
    seen = gate_diagnostics("[{metric: check.score, at_least: 0.5, min_detectable_effect: 0.1}]")
    assert [one[0] for one in seen] == ["PT0707"]


def plan(gate: str, *stages: str) -> Plan:
    made = compile_gate(gate, *stages)
    assert made.plan is not None, made.diagnostics
    return made.plan


MORE = "more: {train: sft, model: sft, data: sums.train, params: {epochs: 1, batch_size: 4}}"
RECHECK = "recheck: {eval: more, data: sums.test, reward: right, metrics: {accuracy: returns}}"
AGAIN = "again: {gate: [{metric: recheck.accuracy, at_least: 0.8}], on_fail: {run: last}}"
LAST = "last: {train: sft, model: base, data: sums.train, params: {epochs: 2, batch_size: 4}}"
EXPORTS = ("late: {export: more}", "export: {export: sft}")


def test_a_branch_takes_what_is_made_from_it_along():
    made = plan(
        f"{one_condition('at_least: 0.8')}, on_fail: {{run: more}}", MORE, RECHECK, AGAIN, LAST, *EXPORTS
    )
    assert made.step("ship").params["on_fail"] == {"run": ["more", "recheck", "again", "last", "late"]}
    assert made.step("again").params["on_fail"] == {"run": ["last"]}
    gates = {step.id: step.gates for step in made.steps if step.gates}
    assert gates == {
        "more": ("ship",),
        "recheck": ("ship",),
        "again": ("ship",),
        "last": ("ship", "again"),
        "late": ("ship", "again"),
        "export": ("ship",),
    }


def test_what_a_gate_does_is_no_part_of_its_key():
    kept = plan(one_condition("at_least: 0.8"), MORE)
    branched = plan(f"{one_condition('at_least: 0.8')}, on_inconclusive: {{run: more}}", MORE)
    uncorrected = plan(f"{one_condition('at_least: 0.8')}, correction: none", MORE)
    assert kept.step("ship").key == branched.step("ship").key
    assert kept.step("more").key == branched.step("more").key
    assert kept.step("ship").key != uncorrected.step("ship").key


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("mroe", "there is no stage `mroe`"),
        ("sft", "`sft` does not come after `ship`"),
        ("ship", "`ship` does not come after `ship`"),
    ],
)
def test_a_branch_that_cannot_be_taken(target: str, message: str):
    made = compile_gate(f"{one_condition('at_least: 0.8')}, on_fail: {{run: {target}}}", MORE)
    assert [one.code for one in made.diagnostics] == ["PT0706"]
    assert made.diagnostics[0].message.startswith(message)


def test_one_stage_is_no_branch_of_two_gates():
    second = "second: {gate: [{metric: check.accuracy, at_least: 0.9}], on_fail: {run: more}}"
    made = compile_gate(f"{one_condition('at_least: 0.8')}, on_fail: {{run: more}}", second, MORE)
    assert [one.code for one in made.diagnostics] == ["PT0706"]
    assert "the gate `ship` already runs `more`" in made.diagnostics[0].message


def test_both_cases_of_a_gate_may_run_the_same():
    cases = "on_fail: {run: more}, on_inconclusive: {run: more}"
    assert compile_gate(f"{one_condition('at_least: 0.8')}, {cases}", MORE).diagnostics == ()


def test_a_stage_that_a_gate_needs_does_not_wait_for_it() -> None:
    """A profile adds stages at the end: here `warm_up`, between the model and the first training."""
    made = plan(
        one_condition("at_least: 0.5"),
        "second: {gate: [{metric: measured.accuracy, at_least: 0.5}]}",
        "measured: {eval: warm_up, data: sums.test, reward: right, metrics: {accuracy: returns}}",
        "warm_up: {train: sft, model: sft, data: sums.train, params: {epochs: 1, batch_size: 4}}",
        "export: {export: warm_up}",
    )
    gates = {step.id: step.gates for step in made.steps if step.gates}
    assert gates == {
        "second": ("ship",),
        "measured": ("ship",),
        "warm_up": ("ship",),
        "export": ("second",),
    }
    order = [step.id for step in made.steps]
    assert sorted(gates, key=order.index) == ["warm_up", "measured", "second", "export"]
