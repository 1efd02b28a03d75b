"""Tiny models of published architectures, as files of a repository on the hub."""

import json
from pathlib import Path
from typing import Any

_USUAL = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 32,
    "head_dim": 16,
    "max_position_embeddings": 8192,
}
_GPT_NEOX = {name: size for name, size in _USUAL.items() if name not in ("num_key_value_heads", "head_dim")}
_GPT2 = {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 1024}
_SIZES: dict[str, dict[str, Any]] = {"gpt2": _GPT2, "gpt_neox": _GPT_NEOX}
# The base models of GPT-2 and Pythia have no chat template.
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def tiny_hub_model(model_type: str, folder: Path) -> dict[str, bytes]:
    """The files of a model with random weights and a tokenizer of bytes."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(1)
    chats = model_type not in ("gpt2", "gpt_neox")
    tokenizer = _byte_tokenizer(_TEMPLATE if chats else None)
    tokens = dict.fromkeys(("pad_token_id", "eos_token_id", "bos_token_id"), tokenizer.eos_token_id)
    sizes = _SIZES.get(model_type, _USUAL)
    config = AutoConfig.for_model(model_type, vocab_size=len(tokenizer), **tokens, **sizes)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["model_type"] == model_type
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _byte_tokenizer(template: str | None) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={one: place for place, one in enumerate(vocabulary)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(_SPECIAL)
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=_SPECIAL[2 if template else 0], pad_token=_SPECIAL[0]
    )
    made.chat_template = template
    return made
