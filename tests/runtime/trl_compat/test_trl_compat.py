"""Patches of TRL and of the Trainer are in trl_compat only; each cites the pinned release and has a test."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
PACKAGE = REPOSITORY / "runtime/posttrain/runtime/trl_compat"
PATCHES = sorted(file for file in PACKAGE.glob("*.py") if file.name != "__init__.py")
MODULES = sorted(
    file
    for layer in ("spec", "compiler", "runtime")
    for file in (REPOSITORY / layer / "posttrain").rglob("*.py")
    if PACKAGE not in file.parents
)
LIBRARIES = ("trl", "transformers", "accelerate")
# Objects of these libraries have these names in our code.
_INSTANCES = ("trainer", "engine", "vllm_generation", "accelerator")
# Files of the libraries whose private names must not occur elsewhere.
_INTERNALS = (
    "trl/trainer",
    "trl/generation",
    "trl/experimental/cpo",
    "trl/experimental/orpo",
    "transformers/trainer.py",
)
_CITATION = re.compile(r"^    ([\w/]+\.py):(\d+) `([\w.]+)`: `(.+)`$", re.MULTILINE)


def library_file(path: str) -> Path:
    spec = find_spec(path.partition("/")[0])
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.parent / path


def definition_at(tree: ast.AST, line: int) -> str:
    """The qualified name of the innermost class or function around a line."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            inner = definition_at(node, line)
            return f"{node.name}.{inner}" if inner else node.name
        if isinstance(node, ast.If) and node.lineno <= line <= (node.end_lineno or 0):
            return definition_at(node, line)
    return ""


def citation_problem(path: str, number: int, name: str, code: str) -> str | None:
    text = library_file(path).read_text(encoding="utf-8")
    lines = text.splitlines()
    if number <= len(lines) and code in lines[number - 1] and definition_at(ast.parse(text), number) == name:
        return None
    now = [place for place, line in enumerate(lines, start=1) if code in line]
    return f"{path}:{number} is not `{code}` in `{name}`; such lines are {now}"


@pytest.mark.parametrize("patch", PATCHES, ids=lambda file: file.stem)
def test_each_patch_cites_the_pinned_release(patch: Path) -> None:
    docstring = ast.get_docstring(ast.parse(patch.read_text(encoding="utf-8")), clean=False) or ""
    found = _CITATION.findall(docstring)
    assert found, f"{patch.name} cites no line of TRL or transformers"
    problems = [citation_problem(path, int(line), name, code) for path, line, name, code in found]
    assert [problem for problem in problems if problem] == []


def test_a_wrong_citation_is_found() -> None:
    path, name, code = "trl/trainer/utils.py", "RepeatSampler.__init__", "self.generator.manual_seed(seed)"
    lines = library_file(path).read_text(encoding="utf-8").splitlines()
    right = next(number for number, line in enumerate(lines, start=1) if code in line)
    assert citation_problem(path, right, name, code) is None
    assert citation_problem(path, right + 1, name, code) is not None
    assert citation_problem(path, right, "RepeatSampler.__iter__", code) is not None
    assert citation_problem(path, right, name, "manual_seed(other)") is not None


def test_each_patch_has_a_test_that_tells_when_it_is_obsolete() -> None:
    for patch in PATCHES:
        test = Path(__file__).parent / f"test_{patch.stem}.py"
        assert test.exists(), f"{patch.name} has no test file"
        assert f'obsolete("{patch.stem}' in test.read_text(encoding="utf-8"), test.name


@cache
def internal_names() -> frozenset[str]:
    """The private attributes and methods of TRL's trainers and of the Trainer."""
    files = [
        file
        for path in _INTERNALS
        for file in (library_file(path).rglob("*.py") if not path.endswith(".py") else [library_file(path)])
    ]
    found: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            ):
                found.add(node.attr)
            elif isinstance(node, ast.FunctionDef):
                found.add(node.name)
    return frozenset(name for name in found if is_private(name))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in LIBRARIES


def findings(text: str) -> list[str]:
    """The places where a module patches the libraries, or uses their private names."""
    tree = ast.parse(text)
    return [
        f"{line}: {what}"
        for line, what in sorted({*private_imports(tree), *private_uses(tree), *patches(tree)})
    ]


def private_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and is_library(node.module) and node.level == 0:
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [part for alias in node.names if is_library(alias.name) for part in alias.name.split(".")]
        else:
            continue
        yield from ((node.lineno, f"imports {name}") for name in names if is_private(name))


def private_uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Private names of trainers that are used on objects other than `self`, or that a subclass overrides."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in internal_names():
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.lineno, f"uses {ast.unparse(node)}"
        elif isinstance(node, ast.ClassDef) and any(is_trainer(base) for base in node.bases):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name in internal_names():
                    yield method.lineno, f"overrides {method.name}"


def is_trainer(base: ast.expr) -> bool:
    """Whether a base class may be a trainer: by its name, or because it is a variable."""
    name = ast.unparse(base)
    return "Trainer" in name or name.rpartition(".")[2][:1].islower()


def patches(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Assignments to attributes of library modules, classes and objects."""
    imported = library_names(tree)
    for node in ast.walk(tree):
        for target in assigned(node):
            owner = target.rpartition(".")[0]
            if owner.partition(".")[0] in imported or owner.rpartition(".")[2] in _INSTANCES:
                yield getattr(node, "lineno", 0), f"assigns {target}"


def library_names(tree: ast.AST) -> set[str]:
    """The names that a module binds to modules, classes and functions of the libraries."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and is_library(node.module) and node.level == 0:
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {
                alias.asname or alias.name.partition(".")[0] for alias in node.names if is_library(alias.name)
            }
        elif isinstance(node, ast.Assign | ast.AnnAssign) and imports_library(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {ast.unparse(target) for target in targets}
    return found


def imports_library(value: ast.expr | None) -> bool:
    """Whether an expression is `import_module("trl...")`."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] == "import_module"):
        return False
    return isinstance(value.args[0], ast.Constant) and is_library(str(value.args[0].value))


def assigned(node: ast.AST) -> list[str]:
    """The attributes that a statement assigns or deletes, such as `trainer.args`."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
        return [ast.unparse(node)]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "delattr"):
        return [f"{ast.unparse(node.args[0])}.{ast.unparse(node.args[1])}"]
    return []


@pytest.mark.parametrize("layer", ["spec", "compiler", "runtime"])
def test_no_other_module_patches_the_libraries(layer: str) -> None:
    root = REPOSITORY / layer
    found = {
        file.relative_to(root).as_posix(): places
        for file in MODULES
        if root in file.parents and (places := findings(file.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from trl.trainer.utils import _helper", "imports _helper"),
        ("from transformers import trainer as t\nt.TRAINING_ARGS_NAME = 1", "assigns t.TRAINING_ARGS_NAME"),
        ("import trl\ntrl.trainer.utils.pad = None", "assigns trl.trainer.utils.pad"),
        ("from trl import GRPOTrainer\nsetattr(GRPOTrainer, 'log', 1)", "assigns GRPOTrainer.'log'"),
        ("m: Any = import_module('trl.generation')\nm.x = 1", "assigns m.x"),
        ("def f(trainer):\n    trainer.train_dataset = 1", "assigns trainer.train_dataset"),
        (
            "class A:\n    def f(self):\n        self._trainer.x = self.trainer.y = 1",
            "assigns self.trainer.y",
        ),
        ("trainer._compute_loss(1)", "uses trainer._compute_loss"),
        ("class A(Trainer):\n    def _save(self): ...", "overrides _save"),
        ("class A(base):\n    def _save(self): ...", "overrides _save"),
    ],
)
def test_a_patch_is_found(text: str, said: str) -> None:
    assert any(said in finding for finding in findings(text))


@pytest.mark.parametrize(
    "text",
    [
        "self.trainer = trainer",
        "setattr(trainer.args, name, 1)",
        "class A(Trainer):\n    def compute_loss(self): ...",
        "class A:\n    def f(self): return self._save()",
        "from trl import GRPOTrainer\nGRPOTrainer(1).train()",
    ],
)
def test_public_use_is_none(text: str) -> None:
    assert findings(text) == []
