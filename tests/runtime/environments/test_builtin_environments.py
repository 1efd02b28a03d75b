"""The built-in environments: guessing a number, and a question with a calculator."""

from fractions import Fraction

import pytest

from posttrain.runtime.environments.calculator import Calculator, CalculatorEpisode
from posttrain.runtime.environments.guess import Guess, GuessEpisode
from posttrain.runtime.environments.safe_arithmetic import evaluate_expression
from posttrain.runtime.rewards.engine.batch import Batch
from posttrain.runtime.rewards.ops import environment as reward
from posttrain.spec.validation import parse_declaration


def test_guesses_are_answered_by_where_the_number_lies() -> None:
    game = GuessEpisode(Guess(low=1, high=9))
    assert game.reset({"target": 6}, seed=0) == ""
    assert game.step("is it 3?") == ("higher", False)
    assert game.step("I do not know") == ("no number", False)
    assert game.step("9") == ("lower", False)
    assert game.score() == 0.0
    assert game.step("6") == ("", True)
    assert game.score() == 1.0


def test_a_target_out_of_reach_is_no_game() -> None:
    with pytest.raises(ValueError, match=r"the target 12 is outside 1 .. 9"):
        GuessEpisode(Guess()).reset({"target": 12}, seed=0)


def test_the_calculator_reckons_and_the_last_turn_is_the_answer() -> None:
    place = CalculatorEpisode(Calculator(show_instructions=False))
    assert place.reset({"answer": "1,250"}, seed=0) == ""
    call = {"name": "calculate", "arguments": {"expression": "50 * (20 + 5)"}}
    assert place.step(call) == ("1250", False)
    assert place.step({"name": "search", "arguments": {}})[0].startswith("error: there is no tool `search`")
    assert place.step({"name": "calculate", "arguments": {}})[0].startswith("error: ")
    assert place.step("It is 1250.0") == ("", True)
    assert place.score() == 1.0


def test_the_reward_op_tells_how_the_episodes_went() -> None:
    played = [
        {"score": 1.0, "solved": True, "turns": 2, "reason": None},
        {"score": None, "solved": None, "turns": 1, "reason": "it fell over"},
    ]
    batch = Batch(count=2, episodes=played)
    for metric, values in (("score", [1.0, None]), ("solved", [True, None]), ("turns", [2, 1])):
        found = reward.run(parse_declaration(reward.Environment, {"metric": metric}), {}, batch)
        assert found.values == values
        assert found.reasons == [None, "it fell over"]
    nothing = reward.run(reward.Environment(), {}, Batch(count=1))
    assert (nothing.values, nothing.reasons) == ([None], ["there is no episode"])


@pytest.mark.parametrize(
    ("text", "value"),
    [("2 + 3 * 4", 14), ("-(2 - 5) / 2", Fraction(3, 2)), ("1.5*4", 6), ("2--3", 5), ("((7))", 7)],
)
def test_arithmetic_is_exact(text: str, value: Fraction) -> None:
    assert evaluate_expression(text) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2 ** 9", "unexpected `\\*`"),
        ("(1 + 2", "unclosed"),
        ("1 2", "unexpected `2`"),
        ("", "unexpected end"),
        ("__import__('os')", "invalid character `_`"),
        ("9" * 201, "longer than 200"),
        ("*".join(["999999999"] * 19), "too large"),
        ("(" * 199, "unexpected end"),
    ],
)
def test_what_is_no_arithmetic_is_told(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        evaluate_expression(text)
