"""Tiny models of several architectures for tests."""

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

VOCABULARY = 23
# The names of the size options of each architecture.
_SIZES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64},
    "gpt_neox": {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    },
    "bloom": {"hidden_size": 16, "n_layer": 2, "n_head": 2},
}
_USUAL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 32,
    "head_dim": 8,
}


def tiny_model(family: str = "qwen2", seed: int = 0, **more: Any) -> Any:
    """A model with random weights, large enough that the generated tokens vary."""
    torch.manual_seed(seed)
    sizes = {**_SIZES.get(family, _USUAL), **more}
    tokens = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
    config = AutoConfig.for_model(family, vocab_size=VOCABULARY, initializer_range=0.3, **tokens, **sizes)
    return AutoModelForCausalLM.from_config(config).eval()


def with_adapter(base: Any, seed: int = 1) -> Any:
    """The model with a nonzero adapter."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    config = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    made = get_peft_model(base, config)
    for name, weight in made.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.3)
    return made.eval()


def random_tokens(rows: int, columns: int, seed: int = 0) -> Any:
    """Tokens that are neither padding nor end tokens."""
    return torch.randint(2, VOCABULARY, (rows, columns), generator=torch.Generator().manual_seed(seed))
