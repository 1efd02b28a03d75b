"""Every imported package is declared in pyproject.toml: for the part of the program that imports it."""

import ast
import re
import sys
import tomllib
from collections import defaultdict
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RUNTIME = "runtime/posttrain/runtime"
# What can be imported where: the first matching folder or file counts. All can import the dependencies.
PARTS = {
    f"{RUNTIME}/trackers/": ("train", "trackers"),
    f"{RUNTIME}/evaluation/lm_eval/": ("train", "benchmarks"),
    f"{RUNTIME}/distributed/": ("train", "cuda"),
    f"{RUNTIME}/engines/vllm.py": ("train", "cuda"),
    f"{RUNTIME}/trl_compat/vllm_": ("train", "cuda"),
    f"{RUNTIME}/models/quantization.py": ("train", "cuda"),
    f"{RUNTIME}/training/kernels.py": ("train", "cuda"),
    f"{RUNTIME}/provenance/sigstore_bundle.py": ("sigstore",),
    f"{RUNTIME}/rewards/ops/reasoning_gym_grader.py": ("train", "reasoning-gym"),
    f"{RUNTIME}/sources/reasoning_gym.py": ("train", "reasoning-gym"),
    f"{RUNTIME}/runners/cluster/ray_bridge.py": ("ray",),
    f"{RUNTIME}/runners/cluster/ray_node_group.py": ("ray",),
    f"{RUNTIME}/runners/": (),
    f"{RUNTIME}/store/": (),
    f"{RUNTIME}/report/": (),
    f"{RUNTIME}/": ("train",),
    "runtime/posttrain/grading/": ("train",),
    "runtime/posttrain/": (),
    "compiler/": (),
    "spec/": (),
}
# These run in the interpreter that the recipe names (`python:`), which has its own packages.
FOREIGN = {
    f"{RUNTIME}/environments/appworld_task.py": "appworld",
    f"{RUNTIME}/environments/textarena_game.py": "textarena",
}
# Distributions whose name is not that of their package, where the locks do not install them.
DISTRIBUTIONS = {"liger_kernel": "liger-kernel", "reasoning_gym": "reasoning-gym"}
IMPORTERS = ("import_module", "__import__")


@cache
def declared() -> dict[str, set[str]]:
    """The declared distributions of each extra; those of every installation under an empty name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: {canonical(re.split(r"[\[<>=~! ;]", one)[0]) for one in listed}
        for extra, listed in found.items()
    }


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_packages(source: str) -> set[str]:
    """The top-level packages that a module imports anywhere, also by a constant name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names):
                found |= {name.name for name in names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module)
            case ast.Call(
                func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(str(module)), *_]
            ):
                if name in IMPORTERS:
                    found.add(module)
            case _:
                pass
    packages = {name.partition(".")[0] for name in found}
    return packages - set(sys.stdlib_module_names) - {"posttrain", "__future__"}


def undeclared(path: str, source: str) -> set[str]:
    """The imported packages that no requirement of the module's part declares."""
    extras = next(extras for place, extras in PARTS.items() if path.startswith(place))
    allowed = set[str]().union(*(declared()[extra] for extra in ("", *extras)))
    return {
        package
        for package in imported_packages(source) - {FOREIGN.get(path, "")}
        if not allowed & {canonical(name) for name in distributions_of(package)}
    }


def distributions_of(package: str) -> list[str]:
    return [DISTRIBUTIONS[package]] if package in DISTRIBUTIONS else installed().get(package, [package])


@cache
def installed() -> dict[str, list[str]]:
    return dict(packages_distributions())


def modules() -> dict[str, str]:
    return {
        str(path.relative_to(ROOT)): path.read_text()
        for top in ("spec", "compiler", "runtime")
        for path in sorted((ROOT / top).rglob("*.py"))
    }


def test_every_import_is_declared() -> None:
    found = {path: names for path, source in modules().items() if (names := undeclared(path, source))}
    assert found == {}


def test_every_declaration_is_needed() -> None:
    """Except for what a library loads by name, and the base of the declarations."""
    imported: dict[str, set[str]] = defaultdict(set)
    for path, source in modules().items():
        for package in imported_packages(source):
            for name in distributions_of(package):
                imported[canonical(name)].add(path)
    indirect = {"bitsandbytes", "liger-kernel", "math-verify", "pydantic", "tensorboard"}
    assert set().union(*declared().values()) - set(imported) - indirect == set()


def test_the_exceptions_exist() -> None:
    sources = modules()
    for path, package in FOREIGN.items():
        assert package in imported_packages(sources[path])
    for place in PARTS:
        assert any(path.startswith(place) for path in sources), place


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("compiler/posttrain/compiler/planted.py", "def f():\n    import torch.nn", {"torch"}),
        ("runtime/posttrain/cli/planted.py", "from numpy import array", {"numpy"}),
        (f"{RUNTIME}/engines/planted.py", "from vllm import LLM", {"vllm"}),
        (f"{RUNTIME}/engines/planted.py", "import_module('undeclared.part')", {"undeclared"}),
        (f"{RUNTIME}/engines/planted.py", "import httpx, json, requests, yaml", {"yaml"}),
        (f"{RUNTIME}/trackers/planted.py", "import wandb", set()),
    ],
)
def test_an_undeclared_import_is_found(path: str, source: str, expected: set[str]) -> None:
    assert undeclared(path, source) == expected
