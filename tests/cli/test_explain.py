"""`recipe explain` documents every code, field and extension; docs/reference has the same text."""

import pytest
from tests.cli.recipe_corpus import parse_tree
from tests.compiler.render.golden_files import assert_matches_golden
from tests.recipe_command import ROOT, run_command

from posttrain.compiler.reference.flow_yaml import to_flow_yaml
from posttrain.compiler.reference.reference_pages import reference_pages
from posttrain.compiler.reference.topic_lookup import (
    Reference,
    build_reference,
    explain,
    list_topics,
    suggest_topic,
)
from posttrain.compiler.render.code_page import change_lines
from posttrain.compiler.text.yaml_tree import node_to_builtins
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.declaration_fields import keys_of
from posttrain.spec.recipe import VERBS, Recipe

KNOWN: Reference = build_reference(CATALOG)
EXPLANATIONS = {
    "stages.train.params": "Hyperparameters of the method",
    "models.init.hidden_size": "Size of the hidden states",
    "models.base.init.hidden_size": "Size of the hidden states",
    "grpo": "Group relative policy optimization",
    "grpo.temperature": "The sampling temperature",
    "stages.my-grpo.params.beta": "The KL coefficient",
    "between": "an opening and a closing tag",
    "between.open": "The opening tag",
    "rewards.solution.nodes.tagged.between.open": "The opening tag",
    "arithmetic": "Generate sums of two numbers",
    "datasets.sums.from.arithmetic.digits": "The number of digits of each operand",
    "split": "Move random rows to named parts",
    "datasets.steps.join.kind": "inner drops rows without a match",
    "stages.gate.gate.confidence": "Confidence level of the interval",
    "seed": "Random seed",
    "profiles": "Overlays by name",
    "matrix": "Lists of values by name",
    "pt0201": "PT0201: unknown key",
}


@pytest.mark.parametrize("word", EXPLANATIONS)
def test_it_is_explained(word: str) -> None:
    text = explain(word, KNOWN)
    assert text is not None
    assert EXPLANATIONS[word] in " ".join(text.split())


@pytest.mark.parametrize(
    "name", sorted({f.name for topic in KNOWN.topics for f in topic.fields if f.see_also})
)
def test_the_page_of_a_mapping_has_its_keys(name: str) -> None:
    """Also of one that several sections have, such as `sampling`."""
    below = {f.see_also for topic in KNOWN.topics for f in topic.fields if f.name == name} - {""}
    keys = [f.name for topic in KNOWN.topics if topic.name in below for f in topic.fields]
    text = explain(name, KNOWN) or ""
    assert keys or name == "stages"
    assert not [key for key in keys if f"- `{key}` (" not in text]


def test_a_field_has_its_type_and_location() -> None:
    text = explain("models.init.num_hidden_layers", KNOWN)
    assert text is not None
    assert "- takes: a whole number, at least 1\n- required\n- where: in `models.init`\n" in text
    text = explain("models.adapter.type", KNOWN)
    assert text is not None
    assert "- takes: `full`, `lora`, `qlora`, `ia3`, `oft` or `vera`\n- default: lora\n" in text


def test_a_name_of_several_fields_prints_each_text_once() -> None:
    text = explain("learning_rate", KNOWN)
    assert text is not None
    named = [method for method in CATALOG.names("method") if f"{method}.learning_rate" in text]
    assert named == list(CATALOG.names("method"))


def test_every_topic_is_documented() -> None:
    words = [*KNOWN.codes, *KNOWN.entries, *keys_of(Recipe), *(f"stages.{verb}" for verb in VERBS)]
    for kind in ("method", "reward", "data", "source", "environment", "tracker"):
        words += CATALOG.names(kind)
    assert [word for word in words if explain(word, KNOWN) is None] == []


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("models.init.hiden_size", "models.init.hidden_size"),
        ("grpo.temprature", "grpo.temperature"),
        ("betwen", "between"),
        ("stages.trian", "stages.train"),
    ],
)
def test_a_miss_has_a_suggestion(word: str, near: str) -> None:
    assert explain(word, KNOWN) is None
    assert suggest_topic(word, KNOWN) == near


def test_a_code_that_is_none_is_near_another() -> None:
    assert explain("PT9201", KNOWN) is None
    assert suggest_topic("PT9201", KNOWN) in KNOWN.codes


def test_the_list_names_every_topic() -> None:
    text = list_topics(KNOWN)
    names = [topic.name for topic in KNOWN.topics if topic.kind not in ("section", "recipe")]
    assert [name for name in (*names, *KNOWN.codes, *keys_of(Recipe)) if name not in text] == []


def test_the_examples_of_topics_are_yaml() -> None:
    for topic in KNOWN.topics:
        assert not topic.example or parse_tree(f"example:\n{indented(topic.example)}") is not None, topic.name


def indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "value",
    ["text", "", "1e-5", "no", "true", "a: b", "# x", 'say "hi"', "x, y", "it's", "é", "- a", "null", "0x1"],
)
def test_a_value_on_one_line_is_the_same_value(value: str) -> None:
    made = to_flow_yaml({"key": [value, {value or "k": 1}], "n": 2.5, "b": True, "z": None})
    tree = parse_tree(f"a: {made}\n")
    assert tree is not None
    assert node_to_builtins(tree)["a"] == {"key": [value, {value or "k": 1}], "n": 2.5, "b": True, "z": None}


def test_the_command() -> None:
    listed = run_command("explain")
    assert listed.returncode == 0
    assert listed.stdout == list_topics(KNOWN)
    explained = run_command("explain", "grpo.temperature")
    assert (explained.returncode, explained.stdout) == (0, explain("grpo.temperature", KNOWN))
    missed = run_command("explain", "grpo.temprature")
    assert missed.returncode == 2
    assert "did you mean `grpo.temperature`?" in missed.stderr


def test_the_reference_is_up_to_date() -> None:
    folder = ROOT / "docs" / "reference"
    made = reference_pages(KNOWN)
    for name, text in made.items():
        assert_matches_golden(folder / name, text)
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.md")} == set(made)


def test_every_code_is_on_a_page_of_its_family() -> None:
    pages = {name: text for name, text in reference_pages(KNOWN).items() if name.startswith("diagnostics/")}
    index = pages.pop("diagnostics/README.md")
    for id, code in KNOWN.codes.items():
        assert sum(f"## {id}: {code.title}\n" in text for text in pages.values()) == 1, id
        assert f"[{id}](" in index


@pytest.mark.parametrize(
    ("word", "title", "excerpt"),
    [
        ("gate", "# stages.gate", "`better_than`"),
        ("eval", "# stages.eval", "`few_shot`"),
        ("train", "# stages.train", "- `grpo`: "),
        ("lora", "# lora", "`lora_alpha`"),
        ("expression", "# expression", "DuckDB"),
    ],
)
def test_a_word_of_a_user_finds_its_topic(word: str, title: str, excerpt: str) -> None:
    text = explain(word, KNOWN)
    assert text is not None
    assert text.startswith(f"{title}\n")
    assert excerpt in text


def test_a_key_of_many_methods_names_them_all_before_a_data_step_of_that_name() -> None:
    text = explain("max_length", KNOWN)
    assert text is not None
    for method in ("sft", "dpo", "kto", "reward_model"):
        assert f"{method}.max_length" in text
    assert text.index("sft.max_length") < text.index("# max_length")


def test_the_page_of_a_code_is_the_change() -> None:
    text = explain("PT0201", KNOWN)
    assert text is not None
    code = KNOWN.codes["PT0201"]
    changed = [line for line in code.wrong.splitlines() if line not in code.right.splitlines()]
    assert changed
    assert all(f"\n-{line}\n" in text for line in changed)
    assert "```diff\n ...\n stages:\n" in text


@pytest.mark.parametrize("id", KNOWN.codes)
def test_the_change_of_a_page_can_be_applied(id: str) -> None:
    """Removed lines occur in the wrong example, in order, and added lines in the right one."""
    code = KNOWN.codes[id]
    lines = change_lines(code.wrong, code.right)
    for mark, text in (("-", code.wrong), ("+", code.right)):
        rest = iter(text.splitlines())
        kept = [line[1:] for line in lines if line != " ..." and line[0] in (" ", mark)]
        assert all(line in rest for line in kept), (id, mark)
    assert any(line[0] in "+-" for line in lines) or code.files or code.wrong == code.right
