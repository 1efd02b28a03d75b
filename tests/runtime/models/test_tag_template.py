"""Chat templates from tags, rendered by transformers as in training and generation."""

from typing import Any

import pytest

from posttrain.runtime.models.character_tokenizer import build_character_tokenizer
from posttrain.runtime.models.tag_template import tag_chat_template
from posttrain.spec.model_declaration import Tags

OPEN, CLOSE = "<think>", "</think>"
TAGS: dict[str, Any] = {"think": [OPEN, CLOSE], "answer": ["<answer>", "</answer>"], "system": None}
ASKED = [{"role": "user", "content": "1+2="}]


def rendered(tags: dict[str, Any], messages: list[dict[str, str]], **how: Any) -> str:
    tokenizer = build_character_tokenizer(
        "abcdefghijklmnopqrstuvwxyz0123456789+= ", [OPEN, CLOSE, "<answer>", "</answer>"]
    )
    tokenizer.chat_template = tag_chat_template(Tags(**tags))
    return tokenizer.apply_chat_template(messages, tokenize=False, **how)


def test_the_prompt_ends_inside_the_reasoning() -> None:
    assert rendered(TAGS, ASKED, add_generation_prompt=True) == f"1+2=<|end|>{OPEN}"


@pytest.mark.parametrize("opening", ["", OPEN])
def test_what_is_learnt_goes_on_from_the_prompt(opening: str) -> None:
    said = f"1+2{CLOSE}<answer>3</answer>"
    whole = rendered(TAGS, [*ASKED, {"role": "assistant", "content": opening + said}])
    assert whole == rendered(TAGS, ASKED, add_generation_prompt=True) + said + "<|end|>"


def test_the_end_is_learnt_and_the_prompt_is_not() -> None:
    tokenizer = build_character_tokenizer("0123456789+= ", [OPEN, CLOSE])
    tokenizer.chat_template = tag_chat_template(Tags(**TAGS))
    encoded = tokenizer.apply_chat_template(
        [*ASKED, {"role": "assistant", "content": "3"}],
        return_assistant_tokens_mask=True,
        return_dict=True,
    )
    trained = [i for i, mask in zip(encoded["input_ids"], encoded["assistant_masks"], strict=True) if mask]
    assert tokenizer.decode(trained) == "3<|end|>"


def test_a_conversation_without_a_system_message_gets_the_one_given() -> None:
    tags = {**TAGS, "system": "think in {think_open} {think_close} then {answer_open}"}
    said = "think in <think> </think> then <answer>"
    assert rendered(tags, ASKED) == f"{said}<|end|>1+2=<|end|>"
    own = [{"role": "system", "content": "be kind"}, *ASKED]
    assert rendered(tags, own) == "be kind<|end|>1+2=<|end|>"


def test_without_a_tag_for_reasoning_the_prompt_ends_with_the_question() -> None:
    assert rendered({**TAGS, "think": None}, ASKED, add_generation_prompt=True) == "1+2=<|end|>"


@pytest.mark.parametrize("tag", ["{{ 1/0 }}", "'\"\\", "{% raw %}", "<é\n\t>"])
def test_tags_are_data_whatever_they_hold(tag: str) -> None:
    tags = {**TAGS, "think": [tag, "x"]}
    assert rendered(tags, ASKED, add_generation_prompt=True) == f"1+2=<|end|>{tag}"
