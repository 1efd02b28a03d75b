"""The prompt of a row, with a template and few-shot examples."""

from typing import Any

import pytest

from posttrain.runtime.errors import StepError
from posttrain.runtime.prompts import _build_prompt
from posttrain.spec.step_params.generation_params import FewShotOptions

FEW_SHOT = FewShotOptions(
    num_fewshot=2, answer="answer", target_delimiter=" ", fewshot_delimiter="\n\n", seed=0
)
SHOTS = [("1+1=", "2"), ("2+2=", "4")]


@pytest.mark.parametrize(
    ("template", "shots", "chat", "expected"),
    [
        ("{prompt}", [], False, "3+3="),
        ("{prompt}", [], True, [{"role": "user", "content": "3+3="}]),
        ("Q: {prompt} \\boxed{prompts}", [], False, "Q: 3+3= \\boxed{prompts}"),
        ("{prompt}", SHOTS, False, "1+1= 2\n\n2+2= 4\n\n3+3="),
        (
            "<{prompt}>",
            SHOTS[:1],
            True,
            [
                {"role": "user", "content": "<1+1=>"},
                {"role": "assistant", "content": "2"},
                {"role": "user", "content": "<3+3=>"},
            ],
        ),
    ],
)
def test_text_is_filled_in_and_shots_stand_before(
    template: str, shots: list[tuple[str, str]], chat: bool, expected: Any
):
    assert _build_prompt("3+3=", template, shots, FEW_SHOT, chat) == expected


def test_a_conversation_is_taken_as_it_is():
    turns = [
        {"role": "system", "content": "s", "name": None},
        {"role": "user", "content": "u", "weight": 0.0},
    ]
    bare = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert _build_prompt(turns, "{prompt}", [], FEW_SHOT, True) == bare


def test_a_row_without_a_prompt_is_said():
    with pytest.raises(StepError, match="a row has no prompt"):
        _build_prompt(None, "{prompt}", [], FEW_SHOT, False)
