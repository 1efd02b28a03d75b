"""The extraction methods, with and without an answer in the completion."""

import pytest

from posttrain.grading.extraction import ExtractionRules, extract

EXTRACTIONS = [
    (("boxed",), r"So \boxed{1} at first, then \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
    (("boxed",), r"\boxed{3} and \boxed{4}", "3, 4"),
    (("boxed",), r"\boxed 7 apples", "7"),
    (("boxed",), r"\boxed{\text{set } \{1, 2\}}", r"\text{set } \{1, 2\}"),
    (("boxed",), r"cut short: \boxed{12", "12"),
    (("boxed",), "no box here", None),
    (("tags",), "<answer>1</answer> no: <answer> 2 </answer>", "2"),
    (("tags",), "<answer>1", None),
    (("tags",), "</answer>1<answer>", None),
    (("hashes",), "work\n#### 1,234\n", "1,234"),
    (("phrase",), "The answer is 5. I hope it is correct.", "5"),
    (("phrase",), "The final answer is $x = 2.5$. Done.", "$x = 2.5$"),
    (("phrase",), "**Answer:** 42", "42"),
    (("phrase",), "The answer to the question is: 7", "7"),
    (("phrase",), "I have no idea", None),
    (("phrase",), "### Final Answer\n\n 17\n", "17"),
    (("phrase",), "The answer is therefore 9.", "9"),
    (("phrase",), "So the answer must be 8.", "8"),
    (("phrase",), "\u7b54\u6848\u662f 6", "6"),
    (("boxed",), r"\boxed{5} and then \boxed{}", "5"),
    (("boxed",), r"\boxed{5}. Final answer: 6", "5"),
    (("boxed",), r"\boxed{5} \quad \text{and} \quad \boxed{6}", "5, 6"),
    (("last_math",), "From $a=1$ and $b=2$ follows \\(c=3\\).", "c=3"),
    (("last_line",), "work\n\n 12 \n\n", "12"),
    (("last_number",), "first 3, then 1,234.5 at last.", "1,234.5"),
    (("last_number",), "none", None),
    (("whole",), "  12  ", "12"),
    (("boxed", "phrase"), "The answer is 5", "5"),
    ((), "The answer is 5", None),
]


@pytest.mark.parametrize(("methods", "text", "answer"), EXTRACTIONS)
def test_a_way_finds(methods, text, answer):
    assert extract(text, ExtractionRules(methods=methods)) == answer


def test_only_what_follows_the_mark_is_searched():
    rules = ExtractionRules(methods=("boxed",), after_marker="</think>")
    assert extract(r"\boxed{1}</think> so \boxed{2}", rules) == "2"
    assert extract(r"\boxed{1}</think> so 2", rules) is None
    assert extract(r"\boxed{1}", rules) == "1"


def test_a_required_mark_must_be_there():
    rules = ExtractionRules(methods=("boxed",), after_marker="</think>", require_marker=True)
    assert extract(r"\boxed{1}", rules) is None
    assert extract(r"</think>\boxed{1}", rules) == "1"


@pytest.mark.parametrize(
    ("method", "text"),
    [("boxed", r"\boxed{1} or \boxed{2}"), ("tags", "<answer>1</answer><answer>2</answer>")],
)
def test_hedging_is_refused_where_once_is_asked_for(method, text):
    assert extract(text, ExtractionRules(methods=(method,), require_single=True)) is None


def test_only_the_end_of_a_long_text_is_searched():
    text = r"\boxed{1}" + " " * 1000
    assert extract(text, ExtractionRules(max_characters=500)) is None
    assert extract(text, ExtractionRules(max_characters=2000)) == "1"


@pytest.mark.parametrize("unit", ["\\boxed{", "$", "\\(", "answer is ", "<answer>", "#", "9,", "\\[ x "])
def test_a_text_of_openings_only_comes_to_an_end(unit):
    """Every method must be linear: a quadratic one would take minutes here."""
    text = unit * (200_000 // len(unit))
    for method in ("boxed", "tags", "hashes", "phrase", "last_math", "last_line", "last_number"):
        extract(text, ExtractionRules(methods=(method,)))
