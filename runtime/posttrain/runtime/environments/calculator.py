"""An environment for questions that are answered with a calculator: the smallest one with a tool."""

from fractions import Fraction

from pydantic import Field

from posttrain.runtime.environments.environment_protocol import Action, EpisodeFactory, EpisodeResources, Row
from posttrain.runtime.environments.safe_arithmetic import evaluate_expression
from posttrain.runtime.rewards.text_parsing.number_parsing import find_numbers, read_number
from posttrain.spec.extension import Environment, Params


class Calculator(Params):
    answer: str = Field(default="answer", description="The column with the correct answer, a number as text.")
    show_instructions: bool = Field(
        default=True, description="Start the episode with instructions on how to call the tool."
    )


EXTENSION = Environment(
    name="calculator",
    summary="Answer the row's question with a tool `calculate`, which takes an `expression`. A turn without a"
    " call is the answer. The score is 1 if its last number is correct, else 0.",
    params=Calculator,
    action_format=lambda _: "tools",
    columns=lambda params: {params.answer: "text"},
)
_INSTRUCTIONS = (
    'Call the calculator with <tool_call>{"name": "calculate", "arguments": {"expression": "2 * (3 + 4)"}}'
    "</tool_call>. A turn without a call is your answer."
)


def run(params: Calculator, resources: EpisodeResources) -> EpisodeFactory:
    return EpisodeFactory(open=lambda: CalculatorEpisode(params))


class CalculatorEpisode:
    def __init__(self, params: Calculator) -> None:
        self._params = params
        self._expected = Fraction(0)
        self._answer: Fraction | None = None

    def reset(self, row: Row, seed: int) -> str:
        expected = read_number(str(row[self._params.answer]))
        if expected is None:
            raise ValueError(f"the answer {row[self._params.answer]!r} is not a number")
        self._expected = expected
        return _INSTRUCTIONS if self._params.show_instructions else ""

    def step(self, action: Action) -> tuple[str, bool]:
        if isinstance(action, str):
            self._answer = _last_number(action)
            return "", True
        if action["name"] != "calculate":
            return f"error: there is no tool `{action['name']}`; there is `calculate`", False
        expression = action["arguments"].get("expression")
        try:
            return str(evaluate_expression(str(expression))), False
        except (ValueError, ZeroDivisionError) as error:
            return f"error: {error}", False

    def score(self) -> float:
        return 1.0 if self._answer == self._expected else 0.0

    def close(self) -> None:
        """Nothing to release."""


def _last_number(text: str) -> Fraction | None:
    numbers = list(find_numbers(text))
    return read_number(numbers[-1]) if numbers else None
