"""The tokens of a built-in template: in the tokenizer, and in the generation config of the model."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.recipe_command import file_digests, product_path, run_command
from tests.recipes.tiny_hub_models import tiny_hub_model
from tests.runtime.small_tokenizers import small_tokenizer

from posttrain.runtime.errors import StepError
from posttrain.runtime.models.builtin_chat_template import (
    add_end_of_turn,
    find_template,
    set_builtin_template,
)
from posttrain.runtime.models.character_tokenizer import build_character_tokenizer
from posttrain.runtime.models.model_loader import load_tokenizer
from posttrain.runtime.models.random_init import random_model
from posttrain.runtime.prompt_tokenization import tokenize_prompt
from posttrain.spec.chat_templates.builtin_templates import BUILTIN_TEMPLATES
from posttrain.spec.model_declaration import RandomInit
from posttrain.spec.step_params.artifact_params import BuiltinTemplateParams

MESSAGES = [{"role": "user", "content": "1+2="}, {"role": "assistant", "content": "3"}]


def with_tokens(*tokens: str, **named: str) -> Any:
    """A tokenizer that adds BOS to texts, with more special tokens."""
    tokenizer = small_tokenizer("adds_bos")
    tokenizer.add_tokens(list(tokens), special_tokens=True)
    for name, token in named.items():
        setattr(tokenizer, name, token)
    return tokenizer


@pytest.mark.parametrize("name", ["chatml", "qwen", "llama3", "gemma"])
def test_a_pretrained_tokenizer_without_the_tokens_is_refused(name: str) -> None:
    template = BUILTIN_TEMPLATES[name]
    with pytest.raises(StepError, match=f"has no token .*which the chat template `{name}` needs") as raised:
        set_builtin_template(small_tokenizer("adds_bos"), template, add_tokens=False)
    assert all(token in str(raised.value) for token in (*template.required, str(template.end_of_turn)))
    assert "the model's own family" in (raised.value.advice or "")


def test_a_token_that_is_text_in_the_tokenizer_is_missing() -> None:
    tokenizer = with_tokens("<|im_end|>")
    with pytest.raises(StepError, match=r"has no token <\|im_start\|>, which"):
        set_builtin_template(tokenizer, BUILTIN_TEMPLATES["chatml"], add_tokens=False)


def test_the_end_of_turn_becomes_the_end_token() -> None:
    tokenizer = with_tokens("<|im_start|>", "<|im_end|>")
    size = len(tokenizer)
    set_builtin_template(tokenizer, BUILTIN_TEMPLATES["chatml"], add_tokens=False)
    assert (tokenizer.eos_token, tokenizer.pad_token, len(tokenizer)) == ("<|im_end|>", "<pad>", size)


def test_the_former_end_token_pads_if_nothing_else_does() -> None:
    tokenizer = with_tokens("<|im_start|>", "<|im_end|>")
    tokenizer.pad_token = None
    set_builtin_template(tokenizer, BUILTIN_TEMPLATES["chatml"], add_tokens=False)
    assert tokenizer.pad_token == "</s>"


@pytest.mark.parametrize("name", ["mistral", "zephyr", "tulu"])
def test_markers_can_be_text(name: str) -> None:
    tokenizer = small_tokenizer("adds_bos")
    set_builtin_template(tokenizer, BUILTIN_TEMPLATES[name], add_tokens=False)
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("</s>", "<pad>")


@pytest.mark.parametrize("name", BUILTIN_TEMPLATES)
def test_a_tokenizer_that_adds_bos_adds_no_second_one(name: str) -> None:
    template = BUILTIN_TEMPLATES[name]
    tokenizer = with_tokens(*template.required, *([template.end_of_turn] if template.end_of_turn else []))
    set_builtin_template(tokenizer, template, add_tokens=False)
    ids = tokenize_prompt(MESSAGES[:1], tokenizer)
    assert ids.count(tokenizer.bos_token_id) == (1 if template.bos else 0)
    whole = tokenizer.apply_chat_template(MESSAGES, return_dict=False)
    assert whole.count(tokenizer.bos_token_id) == (1 if template.bos else 0)


@pytest.mark.parametrize("name", BUILTIN_TEMPLATES)
def test_a_tokenizer_of_a_new_model_gets_the_tokens(name: str) -> None:
    template, tokenizer = BUILTIN_TEMPLATES[name], small_tokenizer("has_no_bos")
    set_builtin_template(tokenizer, template, add_tokens=True)
    tokens = (*template.required, *template.markers, *template.generated)
    assert all(len(tokenizer(token)["input_ids"]) == 1 for token in tokens)
    assert tokenizer.bos_token == template.bos
    assert all(token in tokenizer.decode(tokenizer(token)["input_ids"], skip_special_tokens=True)
               for token in template.generated)  # fmt: skip


@pytest.mark.parametrize("name", BUILTIN_TEMPLATES)
def test_a_character_tokenizer_has_the_letters_of_its_template(name: str) -> None:
    tokenizer = build_character_tokenizer("0123456789+=", (), BUILTIN_TEMPLATES[name])
    set_builtin_template(tokenizer, BUILTIN_TEMPLATES[name], add_tokens=True)
    turns = [{"role": "system", "content": "1"}, *MESSAGES] if name not in ("gemma", "mistral") else MESSAGES
    ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
    assert tokenizer.unk_token_id not in ids


@pytest.mark.parametrize("name", BUILTIN_TEMPLATES)
def test_a_saved_tokenizer_renders_and_ends_alike(name: str, tmp_path: Path) -> None:
    tokenizer = build_character_tokenizer("0123456789+=", (), BUILTIN_TEMPLATES[name])
    set_builtin_template(tokenizer, BUILTIN_TEMPLATES[name], add_tokens=True)
    shape = RandomInit(model_type="qwen2", num_hidden_layers=1, hidden_size=8, num_attention_heads=1)
    random_model(shape, tokenizer, len(tokenizer), 1).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.apply_chat_template(MESSAGES, return_dict=False) == tokenizer.apply_chat_template(
        MESSAGES, return_dict=False
    )
    config = json.loads((tmp_path / "generation_config.json").read_text())
    assert config["eos_token_id"] == loaded.eos_token_id == tokenizer.eos_token_id
    assert loaded.bos_token == BUILTIN_TEMPLATES[name].bos


def test_the_end_of_turn_is_added_to_the_end_tokens_of_a_model(tmp_path: Path) -> None:
    tiny_hub_model("gpt2", tmp_path)  # its end token is <|endoftext|>
    tokenizer = load_tokenizer(tmp_path)
    former = tokenizer.eos_token_id
    set_builtin_template(tokenizer, BUILTIN_TEMPLATES["chatml"], add_tokens=False)
    for _ in range(2):
        add_end_of_turn(tmp_path, tokenizer)
        config = json.loads((tmp_path / "generation_config.json").read_text())
        assert config["eos_token_id"] == [tokenizer.eos_token_id, former]
    assert tokenizer.eos_token == "<|im_end|>"


def test_a_model_without_generation_config_gets_one_from_its_configuration(tmp_path: Path) -> None:
    tokenizer = with_tokens("<|im_end|>", eos_token="<|im_end|>")
    (tmp_path / "config.json").write_text('{"eos_token_id": 2, "bos_token_id": 1, "hidden_size": 8}')
    add_end_of_turn(tmp_path, tokenizer)
    config = json.loads((tmp_path / "generation_config.json").read_text())
    assert config == {"bos_token_id": 1, "eos_token_id": [tokenizer.eos_token_id, 2]}


def test_a_plan_with_another_text_of_the_template_is_refused() -> None:
    template = BUILTIN_TEMPLATES["chatml"]
    chosen = BuiltinTemplateParams(name="chatml", sha256=template.sha256, fallback=False)
    assert find_template(chosen) is template
    with pytest.raises(StepError, match="another chat template `chatml`"):
        find_template(chosen.model_copy(update={"sha256": "0" * 64}))


_PUBLISHED = """
recipe: 1
name: published
models:
  mine: {from: ./mine, chat_template: chatml}
stages:
  export: {export: mine}
"""


@pytest.mark.slow
def test_a_pretrained_model_gets_a_built_in_template(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(_PUBLISHED)
    (tmp_path / "mine").mkdir()
    tiny_hub_model("gpt2", tmp_path / "mine")
    given = file_digests(tmp_path / "mine")
    home = tmp_path / "home"
    ran = run_command("run", tmp_path, "--home", home)
    assert file_digests(tmp_path / "mine") == given
    assert ran.returncode == 0, ran.stderr
    product = product_path(home, "export")
    tokenizer = load_tokenizer(product)
    assert tokenizer.chat_template == BUILTIN_TEMPLATES["chatml"].text
    config = json.loads((product / "generation_config.json").read_text())
    ends = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    assert (tokenizer.eos_token, config["eos_token_id"]) == ("<|im_end|>", ends)
