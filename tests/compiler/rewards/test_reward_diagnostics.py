"""Tests the diagnostics about rewards: place, cause and suggestion."""

from typing import Any

import pytest

from posttrain.compiler.diagnostic_codes import all_codes
from posttrain.compiler.pipeline import CompileResult, compile_recipe
from posttrain.compiler.rewards.standalone_reward import CompiledReward, compile_reward
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.diagnostic import Diagnostic

OURS = [code for code in all_codes() if code.id.startswith("PT05")]
HEAD = "rewards:\n  it:\n    reads: {completion: text, answer: text, sure: boolean}\n"


def compile_alone(nodes: str, returns: str = "{length: completion}", before: str = "") -> CompiledReward:
    text = f"{before}{HEAD}    nodes:\n      node: {nodes}\n    returns: {returns}\n"
    return compile_reward(
        CompileRequest(source=SourceFile("recipe.yaml", text.encode()), catalog=CATALOG, read=lambda _: None),
        "it",
    )


ALWAYS_FALSE = "{compare: {of: {length: completion}, below: 0}}"


def steps(first: float, second: float) -> str:
    """Return a node with two thresholds for a value between 0 and 1."""
    rows = f"[{{at_least: {first}, then: 1}}, {{at_least: {second}, then: 2}}]"
    return f"{{thresholds: {{of: {{repetition: completion}}, steps: {rows}, otherwise: 3}}}}"


def only_diagnostic(found: CompiledReward) -> Diagnostic:
    (diagnostic,) = found.diagnostics
    return diagnostic


def compiled(text: str, files: dict[str, bytes] | None = None) -> CompileResult:
    read = (files or {}).get
    return compile_recipe(
        CompileRequest(source=SourceFile("recipe.yaml", text.encode()), catalog=CATALOG, read=read)
    )


@pytest.mark.parametrize("code", OURS, ids=lambda code: code.id)
def test_a_page_shows_what_raises_it_and_what_does_not(code: Any):
    files = {path: text.encode() for path, text in code.files}
    assert {found.code for found in compiled(code.wrong, files).diagnostics} == {code.id}
    assert compiled(code.right, files).diagnostics == ()


def marked_text(found: Diagnostic, nodes: str) -> str:
    """Return the text that a diagnostic marks, on the line of the node."""
    line = f"      node: {nodes}"
    return line[found.span.column - 1 : found.span.end_column - 1]


@pytest.mark.parametrize(
    ("nodes", "code", "message", "help", "marked"),
    [
        (
            "{equal: {of: completion, too: answer}}",
            "PT0201",
            "unknown key `too`",
            "did you mean `to`?",
            "too",
        ),
        (
            "{equal: {of: completion, to: answer, whitspace: exact}}",
            "PT0201",
            "unknown key `whitspace`",
            "did you mean `whitespace`?",
            "whitspace",
        ),
        (
            "{equal: {of: completion, to: answer, whitespace: exactly}}",
            "PT0204",
            "`exactly` is not one of the legal values",
            "did you mean `exact`?",
            "exactly",
        ),
        (
            "{between: {of: completion, open: <a>}}",
            "PT0202",
            "missing key `close`",
            "The closing tag.",
            "between",
        ),
        ("{equal: {of: completion}}", "PT0504", "missing operand `to`", "", "{of: completion}"),
        (
            "{equal: {of: completion, to: sure}}",
            "PT0503",
            "expected text, got a boolean",
            "",
            "sure",
        ),
        (
            "{score: {when: {length: completion}}}",
            "PT0503",
            "expected a boolean, got an integer",
            "",
            "{length: completion}",
        ),
        (
            "{equall: {of: completion, to: answer}}",
            "PT0501",
            "there is no reward op `equall`",
            "did you mean `equal`?",
            "equall",
        ),
        (
            "{equal: {of: completion, to: answr}}",
            "PT0502",
            "`answr` is neither in `reads` nor a node of this graph",
            "did you mean `answer`?",
            "answr",
        ),
        ("{sum: []}", "PT0504", "expected a list of nodes", "", "[]"),
        (
            "{cases: {of: [{when: sure, than: 1}], otherwise: 0}}",
            "PT0504",
            "expected {when: ..., then: ...}",
            "",
            "{when: sure, than: 1}",
        ),
        (
            "{cases: {of: sure, otherwise: 0}}",
            "PT0504",
            "expected a list of {when: ..., then: ...}",
            "",
            "sure",
        ),
        (
            "{compare: {of: {length: completion}}}",
            "PT0504",
            "`compare` needs at least one of `at_least`, `above`, `at_most`, `below`, `equal`",
            "",
            "{of: {length: completion}}",
        ),
        ("{weighted: {of: [1, 2], weights: [1]}}", "PT0504", "1 weights for 2 numbers", "", "[1]"),
        (
            "{clip: {of: {length: completion}, low: 2, high: 1}}",
            "PT0504",
            "`low` is greater than `high`",
            "",
            "2",
        ),
        (
            "{one_of: completion}",
            "PT0504",
            "`one_of` needs `values` or `among`",
            "",
            "completion",
        ),
        ("{regex: {of: completion, pattern: '(a'}}", "PT0204", "", "", "'(a'"),
        ("{regex: {of: completion, pattern: a, group: 1}}", "PT0204", "", "", "a"),
        ("{json_schema: {of: completion, schema: {type: objekt}}}", "PT0204", "", "", "{type: objekt}"),
        ("{json_path: {of: completion, path: 'a..b'}}", "PT0204", "", "", "'a..b'"),
        (
            "{judge: {of: completion, endpoint: critic, rubric: Kind?}}",
            "PT0509",
            "there is no endpoint `critic`",
            "",
            "critic",
        ),
    ],
)
def test_a_mistake_is_said_once_at_its_place(nodes: str, code: str, message: str, help: str, marked: str):
    found = only_diagnostic(compile_alone(nodes))
    assert found.code == code
    assert message in found.message
    assert help in found.help
    assert marked_text(found, nodes) == marked


def test_every_mistake_is_found_in_one_go():
    found = compile_alone(
        "{sum: [{equall: {of: completion}}, {score: sur}, {scale: {of: completion, bye: 2}}, 1]}"
    )
    assert [diagnostic.code for diagnostic in found.diagnostics] == ["PT0501", "PT0502", "PT0503", "PT0201"]


@pytest.mark.parametrize(
    ("nodes", "codes"),
    [
        ("{sum: [{score: sure}, {scale: {of: {score: sure}, factor: 18}}]}", []),
        ("{sum: [{score: sure}, {scale: {of: {score: sure}, factor: 20}}]}", ["PT0510"]),
        ("{sum: [1000, {score: sure}]}", []),
        ("{weighted: {of: [sure, sure], weights: [1, -40]}}", ["PT0510"]),
        ("{score: {when: {compare: {of: {repetition: completion}, at_least: 0}}}}", ["PT0512"]),
        ("{score: {when: sure, then: 2, else: 2}}", ["PT0512"]),
        ("{scale: {of: {scale: {of: {score: sure}, factor: 0}}, offset: 1}}", ["PT0512"]),
        ("{any: [sure, {not: {all: [{text_is: 1}]}}]}", ["PT0501"]),
        ("{all: [sure, {not: {compare: {of: {length: completion}, below: 0}}}]}", ["PT0512"]),
        ("{max: [{score: sure}, 1]}", ["PT0512"]),
        (f"{{cases: {{of: [{{when: {ALWAYS_FALSE}, then: 1}}], otherwise: sure}}}}", ["PT0511", "PT0512"]),
        (
            "{cases: {of: [{when: true, then: {score: sure}}, {when: sure, then: 9}], otherwise: 2}}",
            ["PT0511", "PT0511"],
        ),
        (steps(0, 0.5), ["PT0512", "PT0511", "PT0511"]),
        (steps(1.5, 0.5), ["PT0511"]),
        (steps(0.9, 0.5), []),
        (steps(1, 0.5), []),
    ],
)
def test_what_the_ranges_show_is_warned_of(nodes: str, codes: list[str]):
    found = compile_alone(nodes)
    assert [diagnostic.code for diagnostic in found.diagnostics] == codes
    assert all(d.severity == "warning" for d in found.diagnostics) == (found.graph is not None)


def test_nodes_that_build_on_each_other_without_end_are_refused():
    nodes = "".join(f"      n{n}: {{not: n{n + 1}}}\n" for n in range(400))
    text = f"{HEAD}    nodes:\n{nodes}      n400: sure\n    returns: {{score: n0}}\n"
    found = compile_reward(
        CompileRequest(source=SourceFile("r.yaml", text.encode()), catalog=CATALOG, read=lambda _: None), "it"
    )
    assert "PT0504" in [d.code for d in found.diagnostics]
    assert "more than 100 levels deep" in found.diagnostics[0].message


PIPELINE = """\
recipe: 1
name: demo
models: {base: {init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2},
    tokenizer: {init: characters}}}
datasets:
  sums: {from: {arithmetic: {digits: 2, count: 100}}}
endpoints:
  critic: {provider: openai, model: m, api_key: {env: JUDGE_KEY}, concurrency: 4}
rewards:
  it:
    reads: {completion: text, answer: text}
    nodes:
      graded: {python: {call: grade.py:score, with: {text: completion}, low: 0, high: 1}}
      judged: {judge: {of: completion, endpoint: critic, rubric: Kind?}}
    returns: {sum: [graded, judged]}
stages:
  check: {eval: base, data: sums, reward: it, metrics: {score: {mean: returns}}}
"""


def step(text: str = PIPELINE, code: bytes = b"def score(text): return 1.0") -> Any:
    outcome = compiled(text, {"grade.py": code})
    assert outcome.plan is not None, outcome.diagnostics
    return outcome.plan.step("check")


def test_the_users_file_and_the_endpoint_are_in_the_key():
    changed = {
        "file.reward:grade.py": step(code=b"def score(text): return 2.0"),
        "params.reward": step(PIPELINE.replace("model: m,", "model: other,")),
    }
    for part, other in changed.items():
        differing = {name for name in other.key_parts if other.key_parts[name] != step().key_parts[name]}
        assert differing == {part}


def test_how_an_endpoint_is_reached_is_not_in_the_key():
    assert step(PIPELINE.replace("concurrency: 4", "concurrency: 9")).key == step().key
    assert step(PIPELINE.replace("JUDGE_KEY", "OTHER_KEY")).key == step().key


def test_the_step_may_use_the_network_and_its_secret():
    assert step().resources.network
    assert step().secrets == ("JUDGE_KEY",)
    quiet = step(PIPELINE.replace("[graded, judged]", "[graded]").replace("      judged:", "      # judged:"))
    assert not quiet.resources.network
    assert quiet.secrets == ()
