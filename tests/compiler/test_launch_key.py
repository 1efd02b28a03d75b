"""The rules that put the micro-batch size and the number of processes of a training in its key."""

import pytest

from posttrain.compiler.checks.trl_args import config_arguments
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.compiler.lowering.launch_key import INDEPENDENT_TRL_ARGUMENTS, LAUNCH_RULES
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG

_RECIPE = """\
recipe: 1
name: demo
hardware: {gpus: 4xH100-80GB}
models:
  base: {from: MODEL}
datasets:
  sums:
    from: {arithmetic: {digits: 2, count: 4000, seed: 1}}
    steps:
      - derive: {chosen: completion, rejected: "'7'"}
stages:
  it: {train: METHOD, model: base, data: sums, adapter: {r: 8, lora_dropout: 0.0}, KEYS
      placement: {num_processes: PROCESSES, strategy: STRATEGY}, params: {batch_size: 32, MICRO}}
"""
_KNOWN, _EXPERTS, _DROPOUT, _UNKNOWN = (
    "Qwen/Qwen3-0.6B",
    "Qwen/Qwen3-30B-A3B",
    "openai-community/gpt2",
    "org/name",
)


def key(method: str, model: str, keys: str = "", processes: int = 1, micro: int = 4) -> str:
    text = _RECIPE
    values = {
        "METHOD": method,
        "MODEL": model,
        "KEYS": f"{keys}," if keys else "",
        "PROCESSES": str(processes),
        "STRATEGY": "ddp" if processes > 1 else "single",
        "MICRO": f"micro_batch_size: {micro}",
    }
    for name, value in values.items():
        text = text.replace(name, value)
    source = SourceFile("recipe.yaml", text.encode())
    outcome = compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=dict[str, bytes]().get))
    assert outcome.plan is not None, [d.message for d in outcome.diagnostics]
    return outcome.plan.step("it").key


@pytest.mark.parametrize(
    ("method", "model", "keys", "independent"),
    [
        ("sft", _KNOWN, "", True),
        ("sft", _KNOWN, "trl: {optim: adamw_torch, adam_beta2: 0.95}", True),
        ("sft", _EXPERTS, "", False),
        ("sft", _DROPOUT, "", False),
        ("sft", _UNKNOWN, "", False),
        ("sft", _KNOWN, "trl: {neftune_noise_alpha: 5.0}", False),
        ("sft", _KNOWN, "trl: {optim: adalomo}", False),
        ("dpo", _DROPOUT, "", True),
        ("dpo", _UNKNOWN, "", True),
        ("dpo", _DROPOUT, "trl: {disable_dropout: false}", False),
    ],
)
def test_the_launch_is_in_the_key_only_under_a_rule(
    method: str, model: str, keys: str, independent: bool
) -> None:
    before = key(method, model, keys)
    assert (key(method, model, keys, micro=8) == before) is independent
    assert (key(method, model, keys, processes=2) == before) is independent


def test_independent_trl_arguments_exist() -> None:
    known = {name for kind in load_table("trl")["classes"] for name in config_arguments(kind)}
    assert known >= INDEPENDENT_TRL_ARGUMENTS


def test_rules_have_reasons() -> None:
    assert len({rule.reason for rule in LAUNCH_RULES}) == len(LAUNCH_RULES)
    assert all(rule.parts for rule in LAUNCH_RULES)
