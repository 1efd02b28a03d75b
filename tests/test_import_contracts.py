"""Checks import-linter's contracts: imports point one way, without cycles, and the compiler stays pure.

Each contract also runs on a copy with a violation, which detects a contract that checks nothing.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
ROOTS = ("spec", "compiler", "runtime")


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    roots = os.pathsep.join(str(tree / root) for root in ROOTS)
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": roots},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_contract_is_kept():
    result = lint_imports(REPOSITORY)
    assert result.returncode == 0, result.stdout + result.stderr


VIOLATIONS = {
    "spec imports the compiler": (
        "arrows point one way",
        {"spec/posttrain/spec/planted.py": "import posttrain.compiler"},
    ),
    "the compiler imports the runtime inside a function": (
        "arrows point one way",
        {
            "compiler/posttrain/compiler/planted.py": (
                "def f():\n    from posttrain.runtime import planted\n    return planted\n"
            ),
            "runtime/posttrain/runtime/planted.py": "",
        },
    ),
    "the runtime imports the compiler inside a function": (
        "the plan is the only contract",
        {"runtime/posttrain/runtime/planted.py": "def f():\n    import posttrain.compiler.pipeline\n"},
    ),
    "the compiler imports grading": (
        "the compiler imports spec only",
        {"compiler/posttrain/compiler/planted.py": "import posttrain.grading"},
    ),
    "grading imports spec": (
        "grading imports no other package",
        {"runtime/posttrain/grading/planted.py": "import posttrain.spec"},
    ),
    "the runtime prints to the terminal": (
        "the plan is the only contract",
        {"runtime/posttrain/runtime/planted.py": "def f():\n    import click\n"},
    ),
    "a command opens the journal": (
        "the command line is thin",
        {"runtime/posttrain/cli/planted.py": "import posttrain.runtime.store.journal"},
    ),
    "two modules import each other": (
        "no import cycles",
        {
            "runtime/posttrain/runtime/planted.py": "from posttrain.runtime import planted_too",
            "runtime/posttrain/runtime/planted_too.py": "from posttrain.runtime import planted",
        },
    ),
    "grading imports the spec": (
        "grading imports no other package of ours",
        {"runtime/posttrain/grading/planted.py": "import posttrain.spec"},
    ),
    "grading imports TRL": (
        "grading imports no other package of ours",
        {"runtime/posttrain/grading/planted.py": "def f():\n    import trl\n    return trl\n"},
    ),
    "spec imports torch": (
        "import nothing heavy",
        {"spec/posttrain/spec/planted.py": "import torch"},
    ),
    "the compiler opens a connection": (
        "import nothing heavy",
        {"compiler/posttrain/compiler/planted.py": "import urllib.request"},
    ),
}


@pytest.mark.parametrize("violation", VIOLATIONS)
def test_a_violation_is_caught(violation, tmp_path):
    contract, files = VIOLATIONS[violation]
    for root in ROOTS:
        shutil.copytree(REPOSITORY / root, tmp_path / root, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    result = lint_imports(tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    broken = [line for line in result.stdout.splitlines() if " BROKEN" in line]
    assert any(contract in line for line in broken), result.stdout
    assert "planted" in result.stdout
