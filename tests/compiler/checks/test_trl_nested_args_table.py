"""Tests that the table of keys inside TRL mappings matches the installed release."""

import ast
import importlib
import inspect
import json
from importlib.util import find_spec

import pytest
from tests.conftest import require_service
from tools import trl_nested_table
from tools.trl_table import configurations

from posttrain.compiler.checks.reserved_trl_args import recipe_equivalent
from posttrain.compiler.checks.reserved_trl_nested_args import nested_reserved_keys
from posttrain.compiler.checks.trl_args import config_arguments
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.extension import Method
from posttrain.spec.pinned_versions import PINNED_VERSIONS

METHODS = [CATALOG.find("method", name) for name in CATALOG.names("method")]
KINDS = sorted({one.trl for one in METHODS if isinstance(one, Method) and one.trl is not None})
FACTS = load_table("trl_nested")
SEPARATE_SETS = {name: keys for part in FACTS["apart"].values() for name, keys in part["sets"].items()}
SETS = {**FACTS["sets"], **SEPARATE_SETS}
ROLLOUTS = ("trl.trainer.grpo_trainer", "trl.trainer.rloo_trainer")


@pytest.mark.slow
def test_the_table_is_that_of_the_installed_release() -> None:
    made = trl_nested_table.render_table({**trl_nested_table.build_table(), "apart": FACTS["apart"]})
    assert made == trl_nested_table.TABLE.read_text(), (
        "run `python -m tools.trl_nested_table` and read the difference"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", trl_nested_table.OPTIONAL_PACKAGES)
def test_what_is_said_of_those_apart_is_so(name: str) -> None:
    how = "install posttrain with its extra `cuda`"
    require_service(name, find_spec(trl_nested_table.OPTIONAL_PACKAGES[name]), how, apart=True)
    assert json.loads(json.dumps(trl_nested_table.optional_package_keys()[name])) == FACTS["apart"][name]


def test_the_table_is_of_the_pinned_release() -> None:
    assert FACTS["release"] == {name: PINNED_VERSIONS[name] for name in FACTS["release"]}
    locked = (trl_nested_table.TABLE.parents[4] / "requirements" / "cuda.txt").read_text()
    for name, part in FACTS["apart"].items():
        assert f"\n{name}=={part['release']} " in locked


@pytest.mark.parametrize("kind", KINDS)
def test_every_mapping_is_looked_into_or_not_given(kind: str) -> None:
    mappings = {name for name, entry in config_arguments(kind).items() if "mapping" in entry["type"]}
    given = {name for name in (*mappings, "optim_args") if recipe_equivalent(name, kind) is None}
    assert given <= set(FACTS["arguments"])


def test_whatever_the_table_looks_into_is_an_argument_with_sets_that_it_has() -> None:
    known = {name for kind in KINDS for name in config_arguments(kind)}
    for name, entry in FACTS["arguments"].items():
        assert name in known
        cases = entry.get("sets", {"": entry.get("set")})
        cases = FACTS["apart"][cases]["cases"] if isinstance(cases, str) else cases
        assert set(cases.values()) <= set(SETS)
    within = {entry["set"] for keys in SETS.values() for entry in keys.values() if "set" in entry}
    assert within <= set(SETS)


def test_what_posttrain_sets_itself_exists() -> None:
    """Every reserved key exists in the target of its argument."""
    arguments = {**FACTS["arguments"], "gradient_accumulation_kwargs": {"set": "GradientAccumulationPlugin"}}
    for name, entry in arguments.items():
        cases = entry.get("sets", {"": entry.get("set")})
        cases = FACTS["apart"][cases]["cases"] if isinstance(cases, str) else cases
        assert nested_reserved_keys(name) <= {key for one in cases.values() for key in SETS[one]}


@pytest.mark.slow
@pytest.mark.parametrize("module", ROLLOUTS)
def test_what_trainers_set_for_a_generation_is_not_given(module: str) -> None:
    """Keys that TRL sets are reserved, because values of the recipe would replace them."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    held = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "generation_kwargs"
    ]
    keys = {ast.literal_eval(key) for one in held if isinstance(one, ast.Dict) for key in one.keys if key}
    assert {"max_new_tokens", "do_sample"} <= keys <= nested_reserved_keys("generation_kwargs")


@pytest.mark.slow
def test_what_goes_to_a_template_beside_its_variables_is_not_given() -> None:
    """All parameters of the rendering function are reserved, except `documents`, which some templates use."""
    assert set(SETS["apply_chat_template"]) - nested_reserved_keys("chat_template_kwargs") == {"documents"}


@pytest.mark.slow
def test_a_trainer_is_found_for_every_configuration() -> None:
    assert {kind.__name__ for kind in configurations()} == set(
        FACTS["arguments"]["gradient_checkpointing_kwargs"]["sets"]
    )
