"""The chat template file of a recipe is checked when the model is prepared."""

from pathlib import Path

import pytest

from posttrain.runtime.errors import StepError
from posttrain.runtime.models.character_tokenizer import build_character_tokenizer
from posttrain.runtime.models.chat_template import check_chat_template, read_chat_template


def check_template_text(template: str) -> None:
    tokenizer = build_character_tokenizer("0123456789", [])
    tokenizer.chat_template = template
    check_chat_template(tokenizer, "chat.jinja")


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (
            "{% for m in messages %}\n{{ m.content }",
            "chat.jinja has a syntax error in line 2: unexpected '}'",
        ),
        ("{{ messages | nosuch }}", "chat.jinja has a syntax error in line 1: No filter named 'nosuch'"),
        ("{% generation %}", "chat.jinja has a syntax error"),
        ("", "chat.jinja does not render user messages"),
        ("hello{{ eos_token }}", "does not render user messages"),
    ],
)
def test_a_template_that_cannot_serve_is_refused(template: str, said: str) -> None:
    with pytest.raises(StepError) as raised:
        check_template_text(template)
    assert said in str(raised.value)
    assert raised.value.advice


@pytest.mark.parametrize("template", ["{{ messages[0].content }}", "{{ raise_exception('no system') }}"])
def test_one_that_writes_the_user_or_wants_other_turns_is_taken(template: str) -> None:
    check_template_text(template)


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    file = tmp_path / "chat.jinja"
    file.write_bytes(b"\xff\xfe{{ messages }}")
    with pytest.raises(StepError, match=r"chat\.jinja is not valid UTF-8"):
        read_chat_template(file)
