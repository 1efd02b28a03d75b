"""What a word was meant to be: the nearest legal one, or what other tools' words are called here."""

import pytest

from posttrain.compiler.diagnosis.foreign_keys import FOREIGN_REWARD_OPS as OPS_OF_OTHERS
from posttrain.compiler.diagnosis.key_suggestions import key_hint, key_location_hint, op_hint, suggest_key
from posttrain.compiler.diagnosis.suggest import closest_match, hint
from posttrain.runtime.catalog import CATALOG

GRPO = [
    "learning_rate",
    "steps",
    "flat_steps",
    "prompts",
    "generations",
    "max_tokens",
    "beta",
    "top_p",
    "clip",
]


@pytest.mark.parametrize(
    ("word", "legal", "meant"),
    [
        ("trian", ["train", "eval"], "train"),
        ("learning-rate", GRPO, "learning_rate"),
        ("topp", GRPO, "top_p"),
        ("max_steps", GRPO, "steps"),
        ("num_generations", GRPO, "generations"),
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


def test_the_sizes_of_a_model_by_the_words_of_its_configuration() -> None:
    keys = ["context", "family", "heads", "hidden", "intermediate", "kv_heads", "layers", "spread", "tied"]
    words = {"model_type": "family", "num_hidden_layers": "layers", "hidden_size": "hidden"}
    words |= {"num_attention_heads": "heads", "num_key_value_heads": "kv_heads", "n_positions": "context"}
    assert {word: suggest_key(word, keys) for word in words} == words


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("lr", "learning_rate"),
        ("kl_coef", "beta"),
        ("max_completion_length", "max_tokens"),
        ("max_grad_norm", "clip"),
        ("group_size", "generations"),
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


def test_a_condition_is_told_with_its_form() -> None:
    help, _ = op_hint("if", OPS)
    assert help == "did you mean `score`? it is written `{score: {when: CONDITION, then: 1.0, else: 0.0}}`"


def test_no_word_for_an_op_is_an_op_itself() -> None:
    words = [word for theirs in OPS_OF_OTHERS.values() for word in theirs.split()]
    assert set(OPS_OF_OTHERS) <= set(OPS)
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


def test_a_key_is_told_where_it_stands() -> None:
    assert key_location_hint("learning_rate") == "`learning_rate` stands under `stages.NAME.params`"
    assert key_location_hint("lora_r") == "`rank` stands under `models.NAME.adapter`"
    assert "the whole batch" in key_location_hint("gradient_accumulation_steps")
    assert key_location_hint("frobnicate") == ""


def test_a_character_that_looks_like_another_is_named() -> None:
    help, meant = key_hint("\u00a0seed", ["seed", "name"], what="sections")
    assert help.startswith("it holds a no-break space (U+00A0)")
    assert meant == "seed"
