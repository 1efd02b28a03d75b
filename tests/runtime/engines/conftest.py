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
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("served") / "tiny"
    words = {word: number for number, word in enumerate(["<pad>", "<eos>", *"0123456789+=abcdef "])}
    tokenizer = Tokenizer(models.BPE(words, []))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")
    wrapped.chat_template = TEMPLATE
    wrapped.save_pretrained(folder)
    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.3,
        eos_token_id=1,
        bos_token_id=None,
        pad_token_id=0,
    )
    LlamaForCausalLM(shape).save_pretrained(folder)
    return folder
