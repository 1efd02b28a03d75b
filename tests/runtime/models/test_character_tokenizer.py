"""A character tokenizer gives the same tokens when built, when reloaded, and in other programs."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from posttrain.runtime.models.character_tokenizer import build_character_tokenizer
from posttrain.runtime.models.model_loader import load_tokenizer
from posttrain.spec.architectures.shape_from_init import init_model_types, shape_from_init
from posttrain.spec.architectures.transformers_config import transformers_config

_TEXTS = ("1 2 a\nb", "1  2\n\n a", "ab<answer>3</answer> 0", "\u00e9 1 \u6570")


@pytest.fixture(scope="module")
def made() -> Any:
    return build_character_tokenizer("0123456789 ab\u00e9\u6570\n", ["<answer>", "</answer>"])


def lay_out(folder: Path, family: str, tokenizer: Any) -> None:
    """Save the tokenizer with a model configuration, which determines how it is loaded."""
    shape = shape_from_init(
        family,
        layers=1,
        hidden=16,
        heads=2,
        kv_heads=None,
        intermediate=None,
        context=64,
        tied=False,
        vocab=len(tokenizer),
    )
    assert shape is not None
    (folder / "config.json").write_text(json.dumps(transformers_config(shape)))
    tokenizer.save_pretrained(folder)


def test_every_character_and_word_is_one_token(made: Any) -> None:
    assert len(made) == 3 + 16 + 2
    assert len(made("1 a\u00e9\n<answer>").input_ids) == 6
    for text in _TEXTS:
        assert made.decode(made(text).input_ids) == text


@pytest.mark.parametrize("family", init_model_types())
def test_it_is_the_same_beside_a_model_of_any_architecture(family: str, made: Any, tmp_path: Path) -> None:
    """transformers uses its own class for qwen2, whatever class was saved."""
    lay_out(tmp_path, family, made)
    ours, others = load_tokenizer(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    for text in _TEXTS:
        assert ours(text).input_ids == made(text).input_ids == others(text).input_ids
        assert ours.decode(ours(text).input_ids) == text


def test_what_it_does_not_know_is_a_token_of_its_own(made: Any, tmp_path: Path) -> None:
    lay_out(tmp_path, "qwen2", made)
    assert load_tokenizer(tmp_path)("1q2").input_ids[1] == made.unk_token_id
