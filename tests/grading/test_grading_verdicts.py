"""The verdicts and their reasons, and comparisons that floating point gets wrong."""

import pytest

from posttrain.grading.grader import grade, grade_many
from posttrain.grading.options import Options

REASONS = [
    ("1/2", "0.5", True, "exact", "equal in exact arithmetic"),
    ("1/2", "1/3", False, "exact", "1/2 is not 1/3"),
    ("Monday", "Tuesday", False, "text", "different words"),
    ("", "5", False, "text", "the candidate is empty"),
    ("5", " ", None, "text", "the reference is empty"),
    ("x < 5", "x \\le 5", False, "exact", "only one of the intervals includes an endpoint"),
    ("1, 2", "1, 2, 3", False, "exact", "a different number of items"),
    ("1/0", "5", False, "exact", "one side divides by zero"),
    (r"\oint_C x\,dx", r"\frac12", False, "limit", r"unsupported notation \oint in the candidate"),
    (r"\frac12", r"\iint_D x\,dA", None, "limit", r"unsupported notation \iint in the reference"),
    (r"\infty", "5", False, "exact", "one side is infinite"),
    ("0.333333", "1/3", True, "exact", "equal to 6 significant digits"),
    ("5 cm", "5 kg", False, "exact", "units 'cm' and 'kg' of different dimensions"),
    (r"\sin^2 x + \cos^2 x", "1", True, "symbolic", "equal to 60 digits at 12 points"),
    (r"\frac{x^2-1}{\sin x}", r"\frac{x-1}{\sin x}", False, "symbolic", "different values at x = "),
]


@pytest.mark.parametrize(("candidate", "reference", "equal", "path", "reason"), REASONS)
def test_a_verdict_says_why(candidate, reference, equal, path, reason):
    verdict = grade(candidate, reference)
    assert (verdict.equal, verdict.path) == (equal, path)
    assert verdict.reason.startswith(reason)


def test_a_proof_is_found_where_one_is_asked_for():
    verdict = grade(r"\sin^2 x + \cos^2 x", "1", Options(proof_timeout_s=30), max_cpu_seconds=60)
    assert verdict.equal
    assert verdict.reason == "the difference simplifies to zero"


def test_without_a_proof_the_points_stand():
    verdict = grade(
        r"\cos\frac{2\pi}{7}\cos\frac{4\pi}{7}\cos\frac{6\pi}{7}", r"\frac18", Options(proof_timeout_s=1e-6)
    )
    assert verdict.equal
    assert verdict.reason == "equal to 1000 digits"


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("1/2004!", "1/2006!"),
        ("2^{-99}", "2^{-98}"),
        ("10^{-400}", "0"),
        ("1 + 2^{-2000}", "1"),
        (r"\sqrt{10^{40}+1}", "10^{20}"),
        (r"e^{-500} + 1", "1"),
        (r"\sin(10^{-200})", "0"),
        (r"\tan(10^{-300}) + 1", "1"),
    ],
)
def test_a_small_difference_is_a_difference(one, two):
    assert grade(one, two).equal is False
    assert grade(two, one).equal is False


def test_equal_pairs_get_equal_verdicts_in_order():
    pairs = [("1", "1"), ("1", "2"), (r"\sin 2x", r"2\sin x\cos x"), ("1", "2"), ("1", "1")]
    assert [verdict.equal for verdict in grade_many(pairs)] == [True, False, True, False, True]
    assert grade_many([]) == []
