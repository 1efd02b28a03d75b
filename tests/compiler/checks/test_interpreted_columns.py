"""Columns that TRL or a chat template would interpret are an error where no stage passes them on."""

import importlib.util
import re
from pathlib import Path

import pytest
from tests.compiler.checks.stage_compilation import diagnostics_of

from posttrain.compiler.checks.interpreted_columns import INTERPRETED_COLUMNS, RESERVED_IN_ROLLOUTS
from posttrain.compiler.checks.training_examples import MINIMAL_RECIPE, training_example
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.diagnostic import Diagnostic
from posttrain.spec.extension import Method

# Columns that the methods read, and keys of rows that TRL itself makes.
READ = {"prompt", "completion", "messages", "chosen", "rejected", "label", "text"}
READ |= {"tools", "chat_template_kwargs"}
MADE_BY_TRL = {"conversations", "from", "value", "content", "role", "type", "environment"}
TRAINERS = {
    "SFTConfig": ("trl.trainer.sft_trainer",),
    "DPOConfig": ("trl.trainer.dpo_trainer",),
    "KTOConfig": ("trl.trainer.kto_trainer",),
    "RewardConfig": ("trl.trainer.reward_trainer",),
    "GRPOConfig": ("trl.trainer.grpo_trainer",),
    "RLOOConfig": ("trl.trainer.rloo_trainer",),
    "CPOConfig": ("trl.experimental.cpo.cpo_trainer",),
    "ORPOConfig": ("trl.experimental.orpo.orpo_trainer",),
}
_ROW = r"(?:examples?(?:\[0\])?|inputs\[0\]|x|feature|dataset_sample|first_example)"
_ACCESS = re.compile(
    rf'\b{_ROW}(?:\.get\(|\.pop\(|\[)"(\w+)"|"(\w+)" (?:not )?in (?:{_ROW}|column_names|cols)\b'
)
GRPO = "{train: grpo, model: base, data: sums.train, reward: right, params: {max_steps: 1}}"


def with_column(text: str, name: str) -> str:
    return text.replace("- split:", f"- derive: {{{name}: \"'a'\"}}\n      - split:")


def found_in(text: str) -> list[Diagnostic]:
    return [one for one in diagnostics_of(text) if one.code in ("PT0420", "PT0421")]


@pytest.mark.parametrize("name", ["images", "video", "audio", "documents"])
@pytest.mark.parametrize("method", ["sft", "dpo", "kto", "ipo", "cpo", "orpo", "simpo", "reward_model"])
def test_inputs_of_the_model_are_not_dropped_by_a_training(name: str, method: str) -> None:
    stage = f"{{train: {method}, model: base, data: sums.train}}"
    text = training_example(stage).replace("eval: sft", "eval: base")
    trained = [one for one in found_in(with_column(text, name)) if "`sft`" in one.message]
    assert len(trained) == 1, trained
    assert (trained[0].severity, f"`{name}`" in trained[0].message) == ("error", True)
    assert trained[0].help


@pytest.mark.parametrize("method", ["grpo", "rloo", "ppo"])
def test_inputs_of_the_model_are_not_dropped_by_a_method_that_generates(method: str) -> None:
    text = training_example(GRPO.replace("grpo", method))
    assert "`sft`" in str([one.message for one in found_in(with_column(text, "images"))])


def test_an_eval_and_a_generate_stage_do_not_drop_documents() -> None:
    text = MINIMAL_RECIPE + "  more: {generate: sft, data: sums.test}\n"
    stages = {one.message.split("`")[1] for one in found_in(with_column(text, "documents"))}
    assert stages == {"sft", "check", "more"}


@pytest.mark.parametrize(
    ("name", "method", "expected"),
    [
        ("margin", "reward_model", 1),
        ("margin", "dpo", 0),
        ("ref_chosen_logps", "dpo", 1),
        ("ref_chosen_logps", "orpo", 0),
        ("labels", "sft", 1),
        ("labels", "dpo", 0),
        ("source", "sft", 0),
        ("score_chosen", "dpo", 0),
    ],
)
def test_a_column_is_an_error_only_where_it_would_be_interpreted(
    name: str, method: str, expected: int
) -> None:
    stage = f"{{train: {method}, model: base, data: sums.train}}"
    text = training_example(stage).replace("eval: sft", "eval: base")
    assert len(found_in(with_column(text, name))) == expected


def reading(text: str, name: str) -> str:
    """A reward that reads the column."""
    text = text.replace("answer: text}", f"answer: text, {name}: text}}")
    return with_column(text, name).replace("to: answer", f"to: {name}").replace("math_equal", "equal")


def test_a_column_that_the_reward_reads_is_used() -> None:
    text = training_example(GRPO)
    assert found_in(reading(text, "documents")) == []
    assert [one.code for one in found_in(reading(text, "images"))] == ["PT0421"]
    assert [one.code for one in found_in(reading(text, "completions"))] == ["PT0421"]


def test_a_column_that_is_null_in_every_row_loses_nothing() -> None:
    rows = "[{prompt: a, completion: b, answer: c, images: %s}, {prompt: d, completion: e, answer: f}]"
    old = "from: {arithmetic: {digits: 2, count: 200}}"
    assert old in MINIMAL_RECIPE
    text = MINIMAL_RECIPE.replace("test: 100", "test: 1")
    assert found_in(text.replace(old, f"from: {{rows: {rows % 'null'}}}")) == []
    assert len(found_in(text.replace(old, f"from: {{rows: {rows % '[x.png]'}}}"))) == 2


@pytest.mark.parametrize("config", TRAINERS)
def test_the_table_has_every_column_that_the_trainer_reads(config: str) -> None:
    keys: set[str] = set()
    for module in (*TRAINERS[config], "trl.data_utils"):
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        found = _ACCESS.findall(Path(spec.origin).read_text())
        keys |= {name for names in found for name in names if name}
    assert READ & keys, "the pattern finds columns"
    own = {key for key in keys if "KL_" in key}  # the mismatched completions, which the KTO trainer makes
    for key in keys - own - READ - MADE_BY_TRL:
        column = INTERPRETED_COLUMNS.get(key)
        assert column is not None, f"{config}: `{key}` is not in the table"
        is_known = not column.trainers or config in column.trainers
        assert is_known or key in data_utils_keys(), f"{config} reads `{key}`"


def data_utils_keys() -> set[str]:
    spec = importlib.util.find_spec("trl.data_utils")
    assert spec is not None
    assert spec.origin is not None
    return {name for names in _ACCESS.findall(Path(spec.origin).read_text()) for name in names if name}


def test_every_method_of_trl_is_checked() -> None:
    methods = [CATALOG.find("method", name) for name in CATALOG.names("method")]
    assert {one.trl for one in methods if isinstance(one, Method) and one.trl} == set(TRAINERS)


def test_the_reserved_names_are_those_of_trl() -> None:
    spec = importlib.util.find_spec("trl.trainer.grpo_trainer")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text()
    given = set(re.findall(r'reward_kwargs\["(\w+)"\] =', source))
    assert given
    own = {"prompt", "completion"}  # read from the graph's own columns
    assert (given - own) | {"prompts", "completions", "completion_ids"} <= set(RESERVED_IN_ROLLOUTS)
