"""Answers that a model could learn in order to be paid without knowing the answer. None may be correct.

The files of `hacks` are families of such answers. Every reference is an ordinary answer, so no verdict may be
undecided either: an abstention would pay better than a wrong answer.
"""

import json
from pathlib import Path

import pytest

from posttrain.grading import AccuracyReward, ExtractionRules, grade, grade_many

FAMILIES = sorted((Path(__file__).parent / "hacks").glob("*.jsonl"))


def read_hacks(path: Path) -> list[tuple[str, str]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(row["candidate"], row["reference"]) for row in rows]


@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: path.stem)
def test_no_hack_of_a_family_is_paid(path):
    hacks = read_hacks(path)
    paid = [
        f"{candidate[:80]!a} | {reference}: {verdict}"
        for (candidate, reference), verdict in zip(hacks, grade_many(hacks), strict=True)
        if verdict.equal is not False
    ]
    assert paid == []


@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: path.stem)
def test_no_hack_in_a_box_is_paid(path):
    """The same answers as the final answers of completions, through the reward function."""
    hacks = [(candidate, reference) for candidate, reference in read_hacks(path) if is_boxable(candidate)]
    completions = [rf"So the final answer is \boxed{{{candidate}}}" for candidate, _ in hacks]
    reward = AccuracyReward(column="answer", extraction=ExtractionRules(methods=("boxed",)))
    rewards = reward(prompts=completions, completions=completions, answer=[to for _, to in hacks])
    paid = [hack for hack, value in zip(hacks, rewards, strict=True) if value != 0.0]
    assert paid == []


def is_boxable(candidate: str) -> bool:
    balanced = candidate.count("{") == candidate.count("}")
    return balanced and "\\boxed" not in candidate and candidate.strip() != ""


UNSEEN = [
    (r"\boxed{5}, wait no", "5"),
    (r"\boxed{\frac{2}{3}}? No.", r"\frac{2}{3}"),
    (r"\boxed{x^2+1} is wrong", "x^2+1"),
    ("x^2-1 => x^2+1", "x^2+1"),
    (r"x^2-1 \implies x^2+1", "x^2+1"),
    ("my friend says 5", "5"),
    ("the textbook claims 5", "5"),
    ("The answer is 6; some get 5.", "5"),
    ("It is hardly 5", "5"),
    ("It is bounded by 5", "5"),
    ("upper bound 5", "5"),
]


@pytest.mark.parametrize(("candidate", "reference"), UNSEEN)
def test_hedges_found_after_the_suite_are_wrong(candidate, reference):
    verdict = grade(candidate, reference)
    assert verdict.equal is False, verdict


@pytest.mark.parametrize(
    ("candidate", "reference"),
    [
        (r"\boxed{3}? Wait, no: \boxed{5}", "5"),
        (r"2x = 6 \implies x = 3", "3"),
        ("Ann is 20 years old.", "20"),
        ("The answer is 4, not 5.", "4"),
        ("The least common multiple is 12.", "12"),
    ],
)
def test_real_answers_next_to_hedges_stay_correct(candidate, reference):
    verdict = grade(candidate, reference)
    assert verdict.equal is True, verdict


def test_the_suite_is_large_and_without_duplicates():
    hacks = {path.stem: read_hacks(path) for path in FAMILIES}
    assert len(hacks) >= 18
    assert sum(map(len, hacks.values())) >= 2000
    for name, rows in hacks.items():
        assert len(set(rows)) == len(rows) >= 30, name


def test_a_hack_that_is_paid_is_found(tmp_path):
    path = tmp_path / "planted.jsonl"
    path.write_text(json.dumps({"candidate": "10/2", "reference": "5"}) + "\n")
    with pytest.raises(AssertionError, match=r"10/2"):
        test_no_hack_of_a_family_is_paid(path)
