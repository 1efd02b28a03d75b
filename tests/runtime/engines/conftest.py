"""A tiny model in the format that engines and servers load, and an environment without proxies."""

from pathlib import Path

import pytest

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}="


@pytest.fixture
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the proxies of the environment."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model with random weights, a tokenizer and a chat template."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from posttrain.runtime.models.character_tokenizer import build_character_tokenizer

    folder = tmp_path_factory.mktemp("served") / "tiny"
    tokenizer = build_character_tokenizer("0123456789+=abcdef ", ())
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.3,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(shape).save_pretrained(folder)
    return folder
