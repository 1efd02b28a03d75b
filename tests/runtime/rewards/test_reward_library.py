"""The reward library, compared with reference implementations in Python."""

import itertools
import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.rewards.reward_compilation import evaluate_graph, library_reward

from posttrain.spec.column_types import Interval

TWO_PHASE = library_reward("two-phase-reasoning/rewards.yaml", "two_phase")
ZERO = library_reward("math-policy-gradient/reward.yaml", "r1_zero")
REASONING, OPEN, CLOSE = "<end_working_out>", "<SOLUTION>", "</SOLUTION>"


def by_hand(completion: str, answer: str) -> dict[str, float]:
    """The four rewards, as defined in the comment of the library's file."""
    counts = [completion.count(tag) for tag in (REASONING, OPEN, CLOSE)]
    places = [completion.find(tag) for tag in (REASONING, OPEN, CLOSE)]
    solution = None
    if OPEN in completion:
        rest = completion[completion.index(OPEN) + len(OPEN) :]
        solution = rest[: rest.index(CLOSE)] if CLOSE in rest else None
    first = re.search(r"-?\d+(\.\d+)?", solution or "")
    return {
        "format_exact": 3.0 if counts == [1, 1, 1] and places == sorted(places) else 0.0,
        "format_near": sum(0.5 if count == 1 else -1.0 for count in counts),
        "answer_score": answered(solution, answer),
        "number_score": near(
            first[0] if first else None, answer, [(0, 3.0), ("0.1", 1.5), ("0.2", 0.5)], -1.5
        ),
    }


def answered(solution: str | None, answer: str) -> float:
    if solution is None:
        return -2.0
    if solution == answer:
        return 5.0
    if re.sub(r"\s", "", solution) == re.sub(r"\s", "", answer):
        return 3.5
    return near(solution, answer, [("0.1", 2.0), ("0.2", 1.5)], -2.0)


def near(given: str | None, answer: str, steps: list[tuple[str | int, float]], otherwise: float) -> float:
    number, wanted = value(given), value(answer)
    if number is None or wanted is None:
        return otherwise
    for share, score in steps:
        if abs(number - wanted) <= Fraction(share) * abs(wanted):
            return score
    return otherwise


def value(text: str | None) -> Fraction | None:
    try:
        return Fraction((text or "").strip()) if "/" not in (text or "") else None
    except ValueError:
        return None


def wrapped(solution: str) -> str:
    return f"so it is{REASONING}{OPEN}{solution}{CLOSE}"


def test_the_four_rewards_range_from_minus_six_and_a_half_to_twelve_and_a_half():
    assert TWO_PHASE.range == Interval(-6.5, 12.5)
    ranges = {name: TWO_PHASE.ranges[name] for name in by_hand("", "")}
    assert ranges == {
        "format_exact": Interval(0.0, 3.0),
        "format_near": Interval(-3.0, 1.5),
        "answer_score": Interval(-2.0, 5.0),
        "number_score": Interval(-1.5, 3.0),
    }


CASES = [
    # completion, answer, exact, near, answer, number
    (wrapped("42"), "42", 3.0, 1.5, 5.0, 3.0),
    (wrapped(" 42\n"), "42", 3.0, 1.5, 3.5, 3.0),
    (wrapped("4 2"), "42", 3.0, 1.5, 3.5, -1.5),
    (wrapped("46.2"), "42", 3.0, 1.5, 2.0, 1.5),
    (wrapped("46.3"), "42", 3.0, 1.5, 1.5, 0.5),
    (wrapped("50.4"), "42", 3.0, 1.5, 1.5, 0.5),
    (wrapped("50.5"), "42", 3.0, 1.5, -2.0, -1.5),
    (wrapped("-42"), "42", 3.0, 1.5, -2.0, -1.5),
    (wrapped("about 42 or 43"), "42", 3.0, 1.5, -2.0, 3.0),
    (wrapped("42.0"), "42", 3.0, 1.5, 2.0, 3.0),
    (wrapped("0"), "0", 3.0, 1.5, 5.0, 3.0),
    (wrapped("0.1"), "0", 3.0, 1.5, -2.0, -1.5),
    (wrapped(""), "42", 3.0, 1.5, -2.0, -1.5),
    (wrapped("x+1"), "x+1", 3.0, 1.5, 5.0, -1.5),
    (f"{OPEN}42{CLOSE}", "42", 0.0, 0.0, 5.0, 3.0),
    (f"{OPEN}42{CLOSE}{REASONING}", "42", 0.0, 1.5, 5.0, 3.0),
    (f"{REASONING}{OPEN}42", "42", 0.0, 0.0, -2.0, -1.5),
    (wrapped("42") + CLOSE, "42", 0.0, 0.0, 5.0, 3.0),
    ("", "42", 0.0, -3.0, -2.0, -1.5),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0][-28:] or "nothing" for case in CASES])
def test_the_four_rewards_case_by_case(case: tuple[str, str, float, float, float, float]):
    completion, answer, *expected = case
    values = evaluate_graph(TWO_PHASE, {"completion": [completion], "answer": [answer]}).values
    names = ("format_exact", "format_near", "answer_score", "number_score")
    assert [values[name][0] for name in names] == expected
    assert values["returns"] == [sum(expected)]
    assert by_hand(completion, answer) == dict(zip(names, expected, strict=True))


PIECES = st.sampled_from([REASONING, OPEN, CLOSE, "42", "4", " ", "\n", "-", ".5", "41", "50", "so ", "100"])


@settings(max_examples=60)
@given(
    st.lists(st.lists(PIECES, max_size=8).map("".join), min_size=1, max_size=20),
    st.sampled_from(["42", "-4", "0", "x"]),
)
def test_the_four_rewards_are_those_written_by_hand(completions: list[str], answer: str):
    values = evaluate_graph(
        TWO_PHASE, {"completion": completions, "answer": [answer] * len(completions)}
    ).values
    for row, completion in enumerate(completions):
        expected = by_hand(completion, answer)
        assert {name: values[name][row] for name in expected} == expected
        assert values["returns"][row] == sum(expected.values())
        assert -6.5 <= values["returns"][row] <= 12.5


def test_the_best_and_the_worst_completion_reach_the_range():
    values = evaluate_graph(TWO_PHASE, {"completion": [wrapped("42"), ""], "answer": ["42", "42"]}).values
    assert values["returns"] == [12.5, -6.5]


def test_the_tags_are_the_users():
    graph = library_reward(
        "two-phase-reasoning/rewards.yaml",
        "two_phase",
        ("vars.solution_open", "<s>"),
        ("vars.solution_close", "</s>"),
    )
    values = evaluate_graph(graph, {"completion": [f"{REASONING}<s>42</s>"], "answer": ["42"]}).values
    assert values["returns"] == [12.5]


def test_a_row_without_a_reference_has_no_score():
    values = evaluate_graph(TWO_PHASE, {"completion": [wrapped("42")], "answer": [None]}).values
    assert values["format_exact"] == [3.0]
    assert values["answer_score"] == values["returns"] == [None]


def test_r1_zero_wants_the_format_and_the_answer():
    answer, other = "<answer>\\frac{1}{2}</answer>", "<answer>3</answer>"
    rows = {
        f"so</think> {answer}": (True, True, 1.0),
        f"so</think> {other}": (True, False, 0.0),
        f"so {answer}": (False, False, 0.0),
        f"so</think>{answer}{answer}": (False, True, 0.0),
        f"{answer}</think>": (False, False, 0.0),
        f"so</think></think>{answer}": (False, True, 0.0),
        "so</think> 0.5": (False, False, 0.0),
    }
    values = evaluate_graph(ZERO, {"completion": list(rows), "answer": ["0.5"] * len(rows)}).values
    assert list(zip(values["format"], values["right"], values["returns"], strict=True)) == list(rows.values())
    assert ZERO.range == Interval(0.0, 1.0)
    assert (ZERO.types["format"], ZERO.types["right"]) == ("boolean", "boolean")


@settings(max_examples=40)
@given(st.permutations(["</think>", "<answer>", "</answer>", "7"]), st.booleans())
def test_r1_zero_is_one_only_in_the_one_order(pieces: list[str], right: bool):
    values = evaluate_graph(ZERO, {"completion": ["".join(pieces)], "answer": ["7" if right else "8"]}).values
    written = "".join(pieces)
    formed = [piece for piece in pieces if piece != "7"] == ["</think>", "<answer>", "</answer>"]
    assert values["format"] == [formed]
    assert values["returns"] == [1.0 if right and written == "</think><answer>7</answer>" else 0.0]


def test_every_file_of_the_library_is_looked_at_here():
    from tests.runtime.rewards.reward_compilation import LIBRARY

    parts = (path for path in LIBRARY.glob("*/*.yaml") if path.name != "recipe.yaml")
    assert sorted(str(path.relative_to(LIBRARY)) for path in parts) == [
        "math-policy-gradient/reward.yaml",
        "two-phase-reasoning/rewards.yaml",
    ]
    assert list(itertools.chain(TWO_PHASE.files, ZERO.files)) == []
