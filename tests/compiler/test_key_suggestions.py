"""Key suggestions: the closest legal key, or the equivalent of a key of another tool."""

import functools
from pathlib import Path
from typing import get_args

import pytest

from posttrain.compiler.data.relational_steps import RELATIONAL_STEPS
from posttrain.compiler.diagnosis.key_suggestions import (
    foreign_ops,
    key_hint,
    key_location_hint,
    native_keys,
    op_hint,
    suggest_key,
)
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.compiler.reference.topic_lookup import build_reference
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.declaration_fields import Declaration, fields_of, keys_of
from posttrain.spec.extension import EXTENSION_KINDS, Method
from posttrain.spec.recipe import SECTIONS, VERBS, Recipe
from posttrain.spec.suggestions import closest_match, hint

GRPO = [
    "learning_rate",
    "max_steps",
    "constant_reward_steps",
    "num_prompts",
    "num_generations",
    "max_completion_length",
    "beta",
    "top_p",
    "max_grad_norm",
]


@pytest.mark.parametrize(
    ("word", "legal", "meant"),
    [
        ("trian", ["train", "eval"], "train"),
        ("learning-rate", GRPO, "learning_rate"),
        ("topp", GRPO, "top_p"),
        ("maxsteps", GRPO, "max_steps"),
        ("generations", GRPO, "num_generations"),
        ("Temperature", ["temperature", "top_p"], "temperature"),
        ("H1000-80GB", ["H100-80GB", "A100-80GB"], "H100-80GB"),
        ("y", ["", "x", "z"], None),
        ("2", ["1"], None),
        ("completion == answer", ["completion"], None),
        ("something", GRPO, None),
    ],
)
def test_the_nearest_word(word: str, legal: list[str], meant: str | None) -> None:
    assert closest_match(word, legal) == meant


def test_the_sizes_of_a_model_by_the_words_of_other_libraries() -> None:
    keys = [
        "max_position_embeddings",
        "model_type",
        "num_attention_heads",
        "hidden_size",
        "num_hidden_layers",
    ]
    words = {"architecture": "model_type", "n_layer": "num_hidden_layers", "d_model": "hidden_size"}
    words |= {"n_head": "num_attention_heads", "n_positions": "max_position_embeddings"}
    assert {word: suggest_key(word, keys) for word in words} == words


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("lr", "learning_rate"),
        ("kl_coef", "beta"),
        ("max_new_tokens", "max_completion_length"),
        ("gradient_clipping", "max_grad_norm"),
        ("group_size", "num_generations"),
        ("gradient_accumulation_steps", None),
    ],
)
def test_words_of_other_tools(word: str, meant: str | None) -> None:
    assert suggest_key(word, GRPO) == meant


OPS = CATALOG.names("reward")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("if", "score"),
        ("IfElse", "score"),
        ("switch", "cases"),
        ("and", "all"),
        ("or", "any"),
        ("add", "sum"),
        ("multiply", "product"),
        ("exact_match", "equal"),
        ("contain", "contains"),
        ("socre", "score"),
        ("frobnicate", None),
    ],
)
def test_reward_ops_as_others_call_them(word: str, meant: str | None) -> None:
    assert op_hint(word, OPS)[1] == meant


def test_a_condition_is_shown_with_its_form() -> None:
    help, _ = op_hint("if", OPS)
    assert help == "did you mean `score`? write `{score: {when: CONDITION, then: 1.0, else: 0.0}}`"


def test_no_word_for_an_op_is_an_op_itself() -> None:
    words = [word for theirs in foreign_ops().values() for word in theirs.split()]
    assert set(foreign_ops()) <= set(OPS)
    assert not set(words) & set(OPS)
    assert len(words) == len(set(words))


def test_a_short_list_stands_beside_what_was_meant() -> None:
    assert hint("trian", ["train", "eval"], what="verbs") == (
        "did you mean `train`? verbs: eval, train",
        "train",
    )
    assert (
        hint("stpes", [f"step{n}" for n in range(20)] + ["steps"], what="keys")[0] == "did you mean `steps`?"
    )
    assert hint("zzz", [f"key{n:02}" for n in range(20)], what="keys")[0].endswith("key11, and 8 more")


def test_a_key_in_the_wrong_place_names_its_place() -> None:
    assert key_location_hint("learning_rate") == "`learning_rate` belongs in `stages.NAME.params`"
    assert key_location_hint("lora_r") == "`r` belongs in `models.NAME.adapter`"
    assert "the batch of an optimizer step" in key_location_hint("gradient_accumulation_steps")
    assert key_location_hint("frobnicate") == ""


@functools.cache
def sections() -> dict[str, set[str]]:
    """The keys of every section of the language and of the parameters of every method, by topic."""
    kinds = ("recipe", "section", "stage", "method")
    topics = [topic for topic in build_reference(CATALOG).topics if topic.kind in kinds]
    return {topic.name: {field.name for field in topic.fields} for topic in topics if topic.fields}


@pytest.mark.parametrize("section", sections())
def test_each_key_of_another_section_is_located_or_replaced(section: str) -> None:
    legal = sections()[section]
    for key in set().union(*sections().values()) - legal:
        help, meant = key_hint(key, legal, what="keys here")
        assert meant or not help.startswith("keys here"), key


@pytest.mark.parametrize(
    ("section", "key", "help"),
    [
        ("recipe", "on_error", "`on_error` belongs in `environments.NAME`"),
        ("hardware", "at_least", "`at_least` belongs in `gate` of `gate` stages"),
        ("models", "existing_adapter", "`existing_adapter` belongs in `models.NAME.adapter`"),
        ("models", "timeout_minutes", "`timeout_minutes` belongs in every stage"),
        ("stages.train", "profiles", "`profiles` belongs in the recipe, at its top"),
        ("datasets", "batch_size", "`batch_size` belongs in `stages.NAME.params`"),
    ],
)
def test_a_key_of_another_section_is_not_a_typo(section: str, key: str, help: str) -> None:
    assert key_hint(key, sections()[section], what="keys here") == (help, None)


@pytest.mark.parametrize(
    ("key", "methods"),
    [
        ("num_generations", "`grpo` and `rloo`"),
        ("beta", "`cpo`, `dpo`, `grpo`, `ipo`, `kto` and 3 other methods"),
        ("cliprange_value", "`ppo`"),
    ],
)
def test_a_parameter_of_another_method_names_the_methods(key: str, methods: str) -> None:
    found, meant = key_hint(key, sections()["sft"], what="keys here")
    assert (found, meant) == (f"`{key}` is a parameter of {methods}", None)


def test_the_table_has_the_methods_of_every_parameter() -> None:
    methods = CATALOG.names("method")
    found: dict[str, list[str]] = {}
    for method in methods:
        extension = CATALOG.find("method", method)
        assert isinstance(extension, Method)
        for key in keys_of(extension.params):
            found.setdefault(key, []).append(method)
    expected = {key: " ".join(names) for key, names in found.items() if len(names) < len(methods)}
    assert load_table("foreign_keys")["methods"] == expected


def declared_keys() -> set[str]:
    """All keys of the recipe language, and the column types."""
    words = {
        "text",
        "integer",
        "number",
        "boolean",
        *VERBS,
        *RELATIONAL_STEPS,
        "extends",
        "profiles",
        "matrix",
        "exclude",
    }
    for kind in EXTENSION_KINDS:
        words |= set(CATALOG.names(kind))
        for name in CATALOG.names(kind):
            extension = CATALOG.find(kind, name)
            assert extension is not None
            words |= set(keys_of(extension.params))
            words |= set(getattr(extension, "operands", ()))
    pending = [Recipe, *VERBS.values(), *SECTIONS.values()]
    while pending:
        declaration = pending.pop()
        words |= set(keys_of(declaration))
        for one in fields_of(declaration).values():
            pending += [part for part in declarations_in(one.annotation) if part not in pending]
    return words


def declarations_in(annotation: object) -> list[type[Declaration]]:
    if isinstance(annotation, type) and issubclass(annotation, Declaration):
        return [annotation]
    return [found for part in get_args(annotation) for found in declarations_in(part)]


def test_values_of_other_tools_are_not_legal_here() -> None:
    """The corpus shows the help of each; a legal value never gets it."""
    case = (Path(__file__).parent / "cases" / "wrong-values-of-other-tools.yaml").read_text()
    for key, values in load_table("foreign_keys")["values"].items():
        assert all(f"{key}: {value}" in case for value in values), key


def test_the_table_names_keys_that_exist() -> None:
    table, keys = load_table("foreign_keys"), declared_keys()
    located = {word for words in table["locations"].values() for word in words.split()}
    assert set(table["renamed"]) - keys == set()
    assert located - keys == set()


def test_a_word_that_is_a_key_of_ours_is_foreign_only_elsewhere() -> None:
    """`model` is legal in a stage, but means `endpoint` in a judge. No word is a synonym of itself."""
    for ours, words in load_table("foreign_keys")["renamed"].items():
        assert ours not in words.split()
        assert all(ours in native_keys(word) for word in words.split())


def test_a_character_that_looks_like_another_is_named() -> None:
    help, meant = key_hint("\u00a0seed", ["seed", "name"], what="sections")
    assert help.startswith("it contains a no-break space (U+00A0)")
    assert meant == "seed"
