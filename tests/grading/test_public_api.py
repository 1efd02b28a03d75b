"""The public API: its names, what it imports, and that it works with its own requirements alone."""

import importlib.util
import inspect
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from posttrain import grading

PUBLIC_NAMES = ["AccuracyReward", "ExtractionRules", "Options", "Verdict", "extract", "grade", "grade_many"]
SOURCE = Path(grading.__file__).parent
SYMBOLIC = r"grading.grade(r'\sin^2 x + \cos^2 x', '1')"


def run_python(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_public_names_are_these():
    assert grading.__all__ == PUBLIC_NAMES
    public = {name for name in vars(grading) if not name.startswith("_")}
    modules = {name for name in public if inspect.ismodule(getattr(grading, name))}
    assert sorted(public - modules) == sorted(PUBLIC_NAMES)


@pytest.mark.parametrize(
    ("candidate", "reference", "outcome", "text"),
    [
        ("1/2", "0.5", "correct", "correct: equal in exact arithmetic"),
        ("6", "5", "wrong", "wrong: 6 is not 5"),
        ("5", "", "undecided", "undecided: the reference is empty"),
    ],
)
def test_a_verdict_is_frozen_and_has_a_reason(candidate, reference, outcome, text):
    verdict = grading.grade(candidate, reference)
    assert (verdict.outcome, str(verdict)) == (outcome, text)
    with pytest.raises(FrozenInstanceError):
        verdict.equal = True


def test_the_import_loads_nothing_of_ours_and_nothing_heavy():
    program = (
        "import sys\n"
        "from posttrain import grading\n"
        "assert grading.grade('1/2', '0.5').equal\n"
        f"assert {SYMBOLIC}.equal\n"
        "ours = {name for name in sys.modules if name.startswith('posttrain.')\n"
        "        and not name.startswith('posttrain.grading')}\n"
        "heavy = {'torch', 'transformers', 'trl', 'numpy', 'sympy', 'mpmath', 'multiprocessing'}\n"
        "print(sorted(ours | (heavy & set(sys.modules))))\n"
    )
    assert run_python(program) == "[]"


@pytest.fixture
def bare_folder(tmp_path):
    """A folder of packages with the grader and its requirements only."""
    (tmp_path / "posttrain").mkdir()
    (tmp_path / "posttrain/grading").symlink_to(SOURCE)
    for name in ("mpmath", "sympy"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        (tmp_path / name).symlink_to(Path(spec.origin).parent)
    return tmp_path


def test_it_works_with_its_own_requirements_alone(bare_folder):
    """Without site-packages: neither this process nor its workers see another package."""
    program = (
        f"import sys; sys.path.insert(0, {str(bare_folder)!r})\n"
        "from posttrain import grading\n"
        f"assert grading.__file__.startswith({str(bare_folder)!r})\n"
        f"print({SYMBOLIC}, grading.extract(r'so \\boxed{{5}}'))\n"
        "options = grading.Options(proof_timeout_s=60)\n"
        f"print({SYMBOLIC[:-1]}, options).reason)\n"
        "from posttrain.grading.worker_pool import shared_pool\n"
        "worker = shared_pool().idle[0].process.pid\n"
        "assert '-S' in open(f'/proc/{worker}/cmdline').read().split(chr(0))\n"
    )
    assert run_python(program, "-I", "-S").splitlines() == [
        "correct: equal to 60 digits at 12 points 5",
        "the difference simplifies to zero",
    ]


@pytest.mark.parametrize("value", [None, 5, 0.5, True, b"5", ["5"], {"role": "assistant"}], ids=repr)
def test_what_is_no_text_is_a_type_error_that_names_it(value: Any):
    name = type(value).__name__
    with pytest.raises(TypeError, match=f"the candidate must be a text, not {name}"):
        grading.grade(value, "5")
    with pytest.raises(TypeError, match=f"the reference must be a text, not {name}"):
        grading.grade_many([("5", "5"), ("5", value)])
    with pytest.raises(TypeError, match=f"the completion must be a text, not {name}"):
        grading.extract(value)
