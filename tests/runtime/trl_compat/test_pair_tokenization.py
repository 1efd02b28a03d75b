"""The pairs of ORPO, CPO and SimPO start with the special tokens that other stages use."""

import inspect
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from tests.runtime.small_tokenizers import small_tokenizer
from tests.runtime.trl_compat.necessity import obsolete

from posttrain.runtime.prompt_tokenization import tokenize_prompt
from posttrain.runtime.training.preference_training import import_experimental
from posttrain.runtime.trl_compat.pair_tokenization import pair_tokenizing_trainer

ROW = {"prompt": "1+2=", "chosen": "3", "rejected": "44"}


def trainer_class(name: str) -> Any:
    return getattr(import_experimental(name), f"{name.upper()}Trainer")


def tokenized(
    kind: Any, tokenizer: Any, max_length: int = 64, row: Any = MappingProxyType(ROW)
) -> dict[str, list[int]]:
    """The tokens of a row, from a trainer that is not initialized."""
    trainer = kind.__new__(kind)
    trainer.__dict__ |= {
        "processing_class": tokenizer,
        "is_encoder_decoder": False,
        "max_length": max_length,
        "accelerator": SimpleNamespace(),
    }
    return trainer.tokenize_row(row)


@pytest.mark.parametrize("name", ["orpo", "cpo"])
def test_trl_prepends_bos_to_a_text_that_has_none(name: str) -> None:
    tokenizer = small_tokenizer("has_bos_but_adds_none")
    assert "add_bos_token_if_needed" in inspect.getsource(trainer_class(name)), obsolete("pair_tokenization")
    ids = tokenized(trainer_class(name), tokenizer)["chosen_input_ids"]
    assert ids[0] == tokenizer.bos_token_id, obsolete("pair_tokenization")


@pytest.mark.parametrize("name", ["orpo", "cpo"])
def test_a_pair_has_the_columns_of_trl_without_that_token(name: str) -> None:
    tokenizer = small_tokenizer("has_bos_but_adds_none")
    base = trainer_class(name)
    theirs = tokenized(base, tokenizer)
    ours = tokenized(pair_tokenizing_trainer(base, rendered=False), tokenizer)
    assert ours.keys() == theirs.keys()
    assert ours == {column: ids[1:] for column, ids in theirs.items()}


@pytest.mark.parametrize("rendered", [True, False])
def test_rendered_conversations_get_no_special_tokens(rendered: bool) -> None:
    tokenizer = small_tokenizer("adds_bos")
    ids = tokenized(pair_tokenizing_trainer(trainer_class("orpo"), rendered=rendered), tokenizer)
    expected = tokenize_prompt(ROW["prompt"], tokenizer)
    assert ids["prompt_input_ids"] == (expected[1:] if rendered else expected)


@pytest.mark.parametrize("name", ["orpo", "cpo"])
def test_a_conversation_ends_once(name: str) -> None:
    """Its template ends turns with the end token and a line break. TRL appends the token again."""
    tokenizer, base = small_tokenizer("has_no_bos"), trainer_class(name)
    row = {"prompt": "u:1+2=a:", "chosen": "3</s>\n", "rejected": "44</s>\n"}
    end = tokenizer.eos_token_id
    theirs = tokenized(base, tokenizer, row=row)
    assert theirs["chosen_input_ids"].count(end) == 2, obsolete("pair_tokenization")
    ours = tokenized(pair_tokenizing_trainer(base, rendered=True), tokenizer, row=row)
    whole = tokenizer(row["prompt"] + row["chosen"], add_special_tokens=False)["input_ids"]
    assert ours["chosen_input_ids"] == whole
    assert ours["rejected_input_ids"].count(end) == 1
    text = tokenized(pair_tokenizing_trainer(base, rendered=False), tokenizer)
    assert text["chosen_input_ids"][-1] == end


def test_completions_are_truncated_and_prompts_are_not() -> None:
    tokenizer = small_tokenizer("adds_bos")
    kind = pair_tokenizing_trainer(trainer_class("orpo"), rendered=False)
    row = tokenized(kind, tokenizer, max_length=6)
    assert [len(row[f"{side}_input_ids"]) for side in ("chosen", "rejected")] == [6, 6]
    assert len(tokenized(kind, tokenizer, max_length=3)["chosen_input_ids"]) == 5
