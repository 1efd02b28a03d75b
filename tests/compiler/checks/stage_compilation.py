"""Compiles the minimal recipe with another training stage, and returns the diagnostics."""

from collections.abc import Mapping
from types import MappingProxyType

from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.diagnostic import Diagnostic
from posttrain.spec.plan import Plan


def stage_recipe(method: str, more: str = "", *, hub: bool = False) -> str:
    comma = ", " if more else ""
    text = training_example(f"{{train: {method}, model: base, data: sums.train{comma}{more}}}", hub=hub)
    # A reward model cannot generate, so no eval can use it.
    return text.replace("eval: sft", "eval: base") if method == "reward_model" else text


def diagnostics_of(text: str, files: Mapping[str, bytes] = MappingProxyType({})) -> list[Diagnostic]:
    source = SourceFile("recipe.yaml", text.encode())
    request = CompileRequest(source=source, catalog=CATALOG, read=files.get)
    return list(compile_recipe(request).diagnostics)


def plan_of(text: str) -> Plan:
    source = SourceFile("recipe.yaml", text.encode())
    plan = compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=lambda _name: None)).plan
    assert plan is not None, codes_of(text)
    return plan


def codes_of(text: str) -> list[str]:
    return sorted(diagnostic.code for diagnostic in diagnostics_of(text))
