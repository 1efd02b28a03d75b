"""The rules for the environment variables of a step's processes, and their documentation."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.render.golden_files import assert_matches_golden
from tests.recipe_command import ROOT

from posttrain.compiler.reference.variables_page import environment_variables_page
from posttrain.spec import accelerator_variables, variable_rules
from posttrain.spec.process_variables import Rules, find_rule
from posttrain.spec.variable_rules import RULES, key_variables

# Names of the issue that led to the policy, and others that users set, with the decision about each.
DECISIONS = {
    "NVIDIA_TF32_OVERRIDE": "drop",
    "VLLM_ATTENTION_BACKEND": "drop",
    "NCCL_ALGO": "drop",
    "LD_PRELOAD": "drop",
    "HF_ALLOW_CODE_EVAL": "drop",
    "ACCELERATE_MIXED_PRECISION": "drop",
    "OMP_SCHEDULE": "drop",
    "CUBLAS_WORKSPACE_CONFIG": "set",
    "PYTHONHASHSEED": "set",
    "OMP_NUM_THREADS": "set",
    "TOKENIZERS_PARALLELISM": "set",
    "LANG": "set",
    "TZ": "set",
    "HF_TOKEN": "secret",
    "HF_ENDPOINT": "pass",
    "HF_HUB_OFFLINE": "pass",
    "HF_HUB_DOWNLOAD_TIMEOUT": "pass",
    "TRANSFORMERS_OFFLINE": "pass",
    "PYTORCH_CUDA_ALLOC_CONF": "pass",
    "NCCL_SOCKET_IFNAME": "pass",
    "NCCL_DEBUG": "pass",
    "https_proxy": "pass",
    "SSL_CERT_FILE": "pass",
    "HF_HOME": "pass",
    "CUDA_VISIBLE_DEVICES": "pass",
    "WANDB_API_KEY": None,
    "OPENAI_API_KEY": None,
    "MY_SETTING": None,
}


@pytest.mark.parametrize(("name", "action"), DECISIONS.items())
def test_each_variable_has_the_decided_rule(name: str, action: str | None) -> None:
    rule = find_rule(name, RULES)
    assert (rule.action if rule else None) == action


def test_no_passed_variable_can_change_a_product() -> None:
    assert [rule.name for rule in RULES.values() if rule.action == "pass" and rule.changes_results] == []


def test_the_key_has_exactly_the_constant_values_that_can_change_a_product() -> None:
    keyed = {
        rule.name: rule.value for rule in RULES.values() if rule.changes_results and rule.action == "set"
    }
    assert key_variables() == keyed
    assert keyed
    assert not any("{" in value for value in keyed.values())
    assert {RULES[name].scope for name in keyed} == {"every"}


def test_a_variable_has_one_rule() -> None:
    groups: list[Rules] = [
        value
        for module in (accelerator_variables, variable_rules)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, tuple)
    ]
    names = Counter(rule.name for group in {id(group): group for group in groups}.values() for rule in group)
    assert [name for name, count in names.items() if count > 1] == []
    assert set(names) == set(RULES)


@given(st.sampled_from([name for name in RULES if name.endswith("*")]), st.text("ABC_", max_size=5))
def test_no_prefix_covers_the_name_of_a_secret(prefix: str, middle: str) -> None:
    for end in ("TOKEN", "SECRET_X", "PASSWORD", "API_KEY", "CREDENTIALS"):
        rule = find_rule(f"{prefix[:-1]}{middle}{end}", RULES)
        assert rule is None or not rule.is_prefix


@given(st.sampled_from(list(RULES)), st.text("ABC_", max_size=3))
def test_the_longest_matching_rule_applies(name: str, end: str) -> None:
    variable = name.removesuffix("*") + end
    found = find_rule(variable, RULES)
    matching = [rule for rule in RULES.values() if rule.matches(variable)]
    assert found is None or len(found.name) == max(len(rule.name) for rule in matching)
    assert (found is None) == (not matching)


def test_the_page_is_current() -> None:
    assert_matches_golden(ROOT / "docs" / "environment-variables.md", environment_variables_page())


def test_the_page_names_every_variable() -> None:
    page = environment_variables_page()
    assert [name for name in RULES if f"`{name}`" not in page] == []


def test_an_exact_rule_takes_precedence() -> None:
    exact = find_rule("NCCL_ALGO", RULES)
    assert exact is not None
    without = {name: rule for name, rule in RULES.items() if name != "NCCL_ALGO"}
    assert find_rule("NCCL_ALGO", without) == replace(RULES["NCCL_*"])
