"""Tests that the table of TRL arguments matches the installed release, and that `trl:` is checked against
it."""

import ast
import inspect
import json
from typing import Any, get_args

import pytest
from tests.compiler.checks.stage_compilation import codes_of, diagnostics_of, stage_recipe
from tools import trl_table

from posttrain.compiler.checks.reserved_trl_args import recipe_equivalent, reserved_args
from posttrain.compiler.checks.trl_args import config_arguments
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.declaration_fields import fields_of
from posttrain.spec.extension import Method
from posttrain.spec.pinned_versions import PINNED_VERSIONS

METHODS = [CATALOG.find("method", name) for name in CATALOG.names("method")]
TRL_METHODS = [method for method in METHODS if isinstance(method, Method) and method.trl is not None]


@pytest.mark.slow
def test_the_table_is_that_of_the_installed_release() -> None:
    made = trl_table.render_table(trl_table.build_table())
    assert made == trl_table.TABLE.read_text(), "run `python tools/trl_table.py` and read the difference"


def test_the_table_is_of_the_pinned_release() -> None:
    release = load_table("trl")["release"]
    assert release == {name: PINNED_VERSIONS[name] for name in release}


@pytest.mark.parametrize("method", TRL_METHODS, ids=lambda method: method.name)
def test_what_posttrain_sets_itself_exists(method: Method) -> None:
    assert method.trl is not None
    known = config_arguments(method.trl)
    gone = {"warmup_ratio", "num_train_epochs", "chat_template_path", "eos_token", "pad_token"}
    gone |= {"logging_first_step", "model_init_kwargs", "trust_remote_code", "chat_template_kwargs"}
    assert reserved_args(method.trl) - set(known) <= gone


def losses_of_trainer(trainer: Any, attribute: str) -> set[str]:
    """Return the loss names in the source of a trainer."""
    tree = ast.parse(inspect.getsource(inspect.getmodule(trainer)))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and ast.unparse(node.left) == attribute:
            found |= {
                part.value
                for part in ast.walk(node.comparators[0])
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            }
    return found


@pytest.mark.slow
def test_the_losses_of_dpo_and_grpo_are_those_of_the_installed_release() -> None:
    from trl.trainer.dpo_trainer import DPOTrainer
    from trl.trainer.grpo_trainer import GRPOTrainer

    from posttrain.runtime.methods import dpo, grpo

    assert losses_of_trainer(DPOTrainer, "loss_type") == set(get_args(dpo.Loss))
    ours = set(get_args(fields_of(grpo.GrpoParams)["loss_type"].annotation))
    assert losses_of_trainer(GRPOTrainer, "self.loss_type") == ours


@pytest.mark.parametrize(("name", "kind"), [("kto", "KTOConfig"), ("cpo", "CPOConfig")])
def test_the_losses_of_the_others_are_those_of_the_table(name: str, kind: str) -> None:
    method = CATALOG.find("method", name)
    assert method is not None
    ours = set(get_args(fields_of(method.params)["loss_type"].annotation))
    others = {"simpo", "alphapo"} if name == "cpo" else set()  # a separate method; one of its weights
    assert ours | others == set(config_arguments(kind)["loss_type"]["choices"])


@pytest.mark.parametrize(
    ("argument", "code", "said"),
    [
        ("adam_beta3: 0.9", "PT0621", "did you mean `adam_beta1`"),
        ("nonsense: 1", "PT0621", "arguments: "),
        ("adam_beta2: high", "PT0622", "takes a number, not the text `high`"),
        ("optim: adam_w", "PT0622", "not a valid value of `optim`"),
        ("neftune_noise_alpha: [1]", "PT0622", "takes null or a number"),
        ("use_cache: 1", "PT0622", "takes true or false"),
        ("dataloader_num_workers: 1.5", "PT0622", "takes an integer"),
        ("optim_target_modules: [1]", "PT0622", "a list of text"),
        ("learning_rate: 1.0e-4", "PT0623", "params.learning_rate"),
        ("output_dir: here", "PT0623", "the store"),
        ("seed: 1", "PT0623", "the recipe's `seed`"),
        ("max_steps: 5", "PT0623", "params.max_steps"),
        ("report_to: wandb", "PT0623", "tracking"),
        ("warmup_ratio: 0.1", "PT0623", "params.warmup_steps"),
        ("max_length: 5", "PT0623", "params.max_length"),
    ],
)
def test_a_mistake_is_told_with_its_mending(argument: str, code: str, said: str) -> None:
    found = diagnostics_of(stage_recipe("sft", f"trl: {{{argument}}}"))
    assert [d.code for d in found] == [code]
    assert said in found[0].message + " " + found[0].help


@pytest.mark.parametrize(
    "argument",
    [
        "adam_beta2: 0.95",
        "adam_beta2: 1",
        "neftune_noise_alpha: null",
        "optim: adamw_torch",
        "gradient_checkpointing_kwargs: {use_reentrant: true}",
        "optim_target_modules: [a, b]",
        "dataloader_num_workers: 2",
    ],
)
def test_what_is_right_passes(argument: str) -> None:
    assert codes_of(stage_recipe("sft", f"trl: {{{argument}}}")) == []


def test_an_argument_of_another_method_is_unknown() -> None:
    assert codes_of(stage_recipe("sft", "trl: {num_generations: 8}")) == ["PT0621"]


def test_a_method_without_trl_takes_none_of_its_arguments() -> None:
    text = stage_recipe("ppo", "reward: right, params: {max_steps: 9}, trl: {adam_beta2: 0.9}")
    assert codes_of(text) == ["PT0621"]


def test_whatever_is_owned_names_something_to_do() -> None:
    for method in TRL_METHODS:
        for argument in reserved_args(method.trl or ""):
            assert recipe_equivalent(argument, method.trl or ""), argument


def test_the_table_is_plain_json() -> None:
    assert json.loads(trl_table.TABLE.read_text()) == load_table("trl")
