"""The effect of each grading option."""

import pytest

from posttrain.grading.grader import grade
from posttrain.grading.options import Options

OPTION_CASES = [
    (Options(percent="fraction"), "50%", "0.5", True),
    (Options(percent="fraction"), "50%", "50", False),
    (Options(percent="number"), "50%", "50", True),
    (Options(percent="number"), "50%", "0.5", False),
    (Options(units="ignore"), "5 cm", "5 m", True),
    (Options(units="require"), "5", "5 m", False),
    (Options(units="require"), "5 m", "500 cm", True),
    (Options(units="require"), "5", "5", True),
    (Options(order="strict"), "1, 2", "2, 1", False),
    (Options(order="strict"), "1, 2", "1, 2", True),
    (Options(order="strict"), r"\{1, 2\}", r"\{2, 1\}", True),
    (Options(order="strict"), "Alice, Bob", "Bob, Alice", False),
    (Options(order="any"), "(1, 2, 3)", "(3, 1, 2)", True),
    (Options(order="any"), "(1, 2, 3)", r"\{3, 1, 2\}", True),
    (Options(order="any"), "(1, 2, 3)", "(3, 1, 4)", False),
    (Options(rounding="off"), "0.3333333333", "1/3", False),
    (Options(rounding="reference"), "100/3", "33.33", True),
    (Options(rounding="reference"), "33.33", "100/3", False),
    (Options(rounding="reference"), r"\sqrt{2}", "1.41", True),
    (Options(rounding="reference"), r"\sqrt{2}", "1.42", False),
    (Options(rounding="reference"), r"\cos\frac{\pi}{7}", "0.901", True),
    (Options(min_digits=3), "0.333", r"\frac13", True),
    (Options(min_digits=3), "0.33", r"\frac13", False),
    (Options(rel_tol=1e-2), "3.14", r"\pi", True),
    (Options(rel_tol=1e-4), "3.14", r"\pi", False),
    (Options(abs_tol=0.5), "10.4", "10", True),
    (Options(abs_tol=0.5), "10.6", "10", False),
    (Options(rel_tol=1e-2), r"x + 3.14", r"x + \pi", False),
    (Options(require_simplified=True), "2/4", "1/2", False),
    (Options(require_simplified=True), r"\frac{1}{2}", "0.5", True),
    (Options(require_simplified=True), r"\sqrt{8}", r"2\sqrt{2}", False),
    (Options(require_simplified=True), r"2\sqrt{2}", r"\sqrt{8}", True),
    (Options(require_simplified=True), "2 + 3", "5", False),
    (Options(require_simplified=True), "2 \\cdot 3", "6", False),
    (Options(require_simplified=True), "3\\frac{1}{2}", "7/2", True),
    (Options(require_simplified=True), "5!", "120", False),
    (Options(require_simplified=True), "2^3", "8", False),
    (Options(require_simplified=True), "(1, 2/4)", "(1, 1/2)", False),
    (Options(require_simplified=True), "10^6", "1000000", True),
    (Options(case_sensitive=True), "monday", "Monday", False),
    (Options(case_sensitive=True), "Monday", "Monday.", True),
    (Options(choices=False), "(B) 12", "B", False),
    (Options(sentences=False), "So there are 5 of them.", "5", False),
    (Options(sentences=False), "The answer is 5.", "5", True),
    (Options(decimal_comma=False), "3,5", "3.5", False),
]


@pytest.mark.parametrize(("options", "candidate", "reference", "equal"), OPTION_CASES)
def test_an_option_decides(options, candidate, reference, equal):
    verdict = grade(candidate, reference, options)
    assert verdict.equal is equal, verdict.reason


def test_a_simplified_form_says_what_is_left():
    assert (
        grade("2/4", "1/2", Options(require_simplified=True)).reason
        == "equal, but not simplified: a fraction that is not in lowest terms"
    )


@pytest.mark.parametrize(
    ("pair", "equal"), [(("1" * 50, "2"), False), (("2", "1" * 50), None)], ids=["candidate", "reference"]
)
def test_a_longer_answer_than_allowed_is_wrong_and_a_longer_reference_undecided(pair, equal):
    verdict = grade(*pair, Options(max_characters=20))
    assert (verdict.equal, verdict.path) == (equal, "limit")
    assert "50 characters" in verdict.reason
