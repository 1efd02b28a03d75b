"""Published templates get TRL's markers, also with the default arguments of a model."""

from importlib.resources import files
from typing import Any

import pytest
from tests.runtime.small_tokenizers import small_tokenizer
from tests.runtime.trl_compat.necessity import obsolete
from trl.chat_template_utils import get_training_chat_template, has_generation_markers
from trl.trainer import sft_trainer

from posttrain.runtime.models.template_arguments import set_default_arguments, split_default_arguments
from posttrain.runtime.trl_compat.training_templates import patch_training_templates, training_template


def published() -> Any:
    tokenizer = small_tokenizer("has_no_bos")
    tokenizer.chat_template = (files("trl") / "chat_templates" / "qwen3.jinja").read_text()
    return tokenizer


def with_default() -> Any:
    tokenizer = published()
    set_default_arguments(tokenizer, {"enable_thinking": False})
    return tokenizer


def test_trl_does_not_know_a_template_with_defaults() -> None:
    try:
        get_training_chat_template(with_default())
    except ValueError:
        return
    pytest.fail(obsolete("training_templates"))


def test_the_markers_are_added_after_the_defaults() -> None:
    tokenizer = with_default()
    before = tokenizer.chat_template
    found = training_template(tokenizer)
    assert found is not None
    assert has_generation_markers(found)
    defaults, marked = split_default_arguments(found)
    assert defaults == split_default_arguments(before)[0] != ""
    assert marked == get_training_chat_template(published())
    assert tokenizer.chat_template == before


def test_the_trainer_uses_the_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sft_trainer, "get_training_chat_template", get_training_chat_template)
    patch_training_templates()
    patched: Any = sft_trainer.get_training_chat_template
    assert patched(published()) == get_training_chat_template(published())
    assert patched(with_default()) == training_template(with_default())
    unknown = published()
    unknown.chat_template = "{{ messages }}"
    with pytest.raises(ValueError, match="chat template"):
        patched(unknown)
