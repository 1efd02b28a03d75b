"""Inputs that hang, crash or exploit other graders."""

import subprocess
import sys

import pytest

from posttrain.grading.exact_arithmetic import evaluate_exactly
from posttrain.grading.grader import grade
from posttrain.grading.interpretations import interpretations
from posttrain.grading.options import Options
from posttrain.grading.rational_functions import Budget, unknown_names

POWER_TOWERS = [
    r"2003^{2002^{2001}}",
    r"9^{9^{9^9}}",
    r"9^{9^{9^{9^{9^9}}}}",
    "100000000!",
    "(10^9)!",
    "((100)!)!",
    r"\binom{10^8}{5\cdot10^7}",
    r"\binom{10^8}{5 10^7}",
    "10^{10^{10}}",
    r"-9^{9^{9^9}}",
    r"3 \cdot 10^{10^{10}}",
]
NESTED = [
    "(" * 2000 + ")" * 2000,
    "{" * 2000,
    "2^" * 1000 + "2",
    r"\sqrt" * 700 + "2",
    "1/" * 700 + "1",
    "-" * 1400 + "1",
    "|" * 1000,
    "5" + "!" * 1400,
    r"\sin " * 700 + "x",
    r"\frac{" * 300 + "1" + "}{2}" * 300,
    r"\text{" * 500 + "1" + "}" * 500,
    r"\left(" * 300 + "1" + r"\right)" * 300,
    r"\begin{pmatrix}" * 100 + "1" + r"\end{pmatrix}" * 100,
    "x'" * 900,
    r"\angle" * 600 + "A",
    r"\log " * 29 + "100",
    "i" + "^2" * 34 + "^{|x-1|}",
    "x^{2^{" * 9 + "y" + "}}" * 9,
]
LONG = ["x" * 100_000, "1" * 100_000, "1+" * 50_000 + "1", r"\boxed{" * 20_000, "$" * 100_000, " " * 100_000]
CODE_INJECTIONS = [
    "__import__('os').system('touch {}')",
    "eval(open('{}', 'w'))",
    "().__class__.__bases__[0].__subclasses__()",
    "lambda: open('{}', 'w')",
    "x = __import__('pathlib').Path('{}').touch()",
    "[c for c in ().__class__.__base__.__subclasses__()]",
    "exit()",
    "Symbol('x'); open('{}', 'w')",
    r"\input{{{}}}",
    r"\write18{{touch {}}}",
]
# Texts on which a naive regular expression takes quadratic time or worse.
REGEX_FLOODS = [
    "1" + " " * 3900 + "x",
    "\\boxed{1}" + " " * 190_000 + "x\\boxed{2}",
    "(A) " * 950 + "5",
    "." * 3900 + "x",
    "answer" + ":" * 3900,
    "answer is " * 390,
    "where " * 600 + "k",
    "\\text{where }" * 280 + "k",
    "1,2" * 1300,
    "$ " * 1900 + "1",
    "\ufdfa" * 3900,
    "is " * 1300,
    "1 23" * 900,
    "twenty " * 550,
    "A, " * 1300,
    "x! " * 1200,
    "so it is 1" + " " * 3900 + "x",
    "5 " + "\\ " * 400 + "3333333333",
    "1" + ",\\!" * 400 + "22",
    "8 integer" + "\\color{red}" * 320,
    "we have 5, or " * 280,
    "we have (1, " * 320,
    "about " * 650 + "8",
    "1" * 1400 + " (",
    "\\left\\{\\begin{array}" * 140,
    "\\boxed{1} and " * 270,
    "final answer " * 290,
    "\\\\frac" * 650,
    "\\color{red}" * 320,
    "\n" * 190_000,
    "\n*" * 95_000 + "confident",
]
MALFORMED = [
    "",
    " ",
    "\x00",
    "\ud800",
    "\\",
    "{",
    "}",
    "\\frac",
    "\\frac{1}",
    "^",
    "_",
    "$",
    "&",
    "\\\\",
    "%",
    "√",
    "1e999999",
]


@pytest.mark.parametrize("tower", POWER_TOWERS)
def test_an_immense_number_is_not_a_small_one(tower):
    for pair in ((tower, "5"), ("5", tower)):
        verdict = grade(*pair)
        assert verdict.equal is False, verdict.reason


def test_immense_numbers_are_told_apart_by_their_parts():
    assert grade(r"2003^{2002^{2001}}", r"2003^{2002^{2000}}").equal is False
    assert grade(r"2003^{2002^{2001}}", r"2003^{2002^{2000}\cdot 2002}").equal is True
    assert grade("100000000!", "100000001!").equal is False
    assert grade(r"9^{9^{9^9}}", r"9^{9^{9^9}}").equal is True


def test_agreement_of_leading_digits_is_not_equality():
    verdict = grade("100000000! + 1", "100000000!")
    assert verdict.equal is not True


@pytest.mark.parametrize("text", NESTED + LONG + REGEX_FLOODS, ids=lambda text: text[:12])
def test_no_limit_pays_better_than_a_wrong_answer(text):
    """A candidate beyond a limit is wrong. A reference beyond a limit may leave the candidate undecided."""
    candidate, reference = grade(text, "5"), grade("5", text)
    assert candidate.equal is False
    assert reference.equal is not True
    for verdict in (candidate, reference):
        assert verdict.reason
        assert "internal error" not in verdict.reason


COSTLY = [
    r"\sin(10^{10^8})",
    r"\sum_{n=1}^{\infty} n",
    r"\int_0^1 \sin(1/x^9) dx",
    "1" * 1601,
    "(" * 45 + "5" + ")" * 45,
]


@pytest.mark.parametrize("text", COSTLY, ids=lambda text: text[:12])
@pytest.mark.parametrize("max_cpu_seconds", [5.0, 500.0])
def test_limits_of_sizes_and_steps_come_before_that_of_cpu_time(text, max_cpu_seconds):
    verdict = grade(text, r"\frac12", max_cpu_seconds=max_cpu_seconds)
    assert verdict.equal is False
    assert "CPU time" not in verdict.reason
    undecided = grade(r"\frac12", text, max_cpu_seconds=max_cpu_seconds)
    assert undecided.equal is None
    assert "the reference" in undecided.reason
    assert "CPU time" not in undecided.reason


@pytest.mark.parametrize(
    "text", [r"\log " * 29 + "100", "i" + "^2" * 29 + "^{|x-1|}", r"\sin(1+" * 20 + "x" + ")" * 20]
)
def test_the_names_of_unknown_values_do_not_grow_with_what_they_hold(text):
    for node in interpretations(text, Options()):
        value = evaluate_exactly(node, Budget(20_000, 40_000))
        assert all(len(name) < 1000 for name in unknown_names(value))


@pytest.mark.parametrize("text", MALFORMED)
def test_a_strange_text_is_no_answer(text):
    verdict = grade(text, "5")
    assert verdict.equal is not True
    assert "internal error" not in verdict.reason
    assert grade("5", text).equal is not True


@pytest.mark.parametrize("template", CODE_INJECTIONS)
def test_nothing_is_executed(template, tmp_path):
    marker = tmp_path / "marker"
    text = template.replace("{{{}}}", f"{{{marker}}}").replace("{}", str(marker))
    verdict = grade(text, "5")
    assert verdict.equal is not True
    assert not marker.exists()


def test_the_parent_never_loads_sympy_or_mpmath():
    program = (
        "import sys\n"
        "from posttrain.grading.grader import grade\n"
        r"assert grade(r'\frac{1}{2}', '0.5').equal" + "\n"
        r"assert grade(r'\sin^2 x + \cos^2 x', '1').equal" + "\n"
        "print(sorted({'sympy', 'mpmath', 'multiprocessing'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"
