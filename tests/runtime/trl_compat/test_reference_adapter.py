"""Checkpoints of an adapter with TRL's copy of the initial adapter beside it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tests.runtime.trl_compat.necessity import obsolete
from tests.runtime.trl_compat.tiny_trainer import tiny_trainer
from transformers import Qwen2Config, Qwen2ForCausalLM

from posttrain.runtime.trl_compat.reference_adapter import remove_reference_adapter


def adapted_model() -> Any:
    """A model with a continued adapter and its copy, as in TRL's trainers."""
    torch.manual_seed(0)
    sizes: Any = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "vocab_size": 4}
    base: Any = Qwen2ForCausalLM(Qwen2Config(num_attention_heads=2, num_key_value_heads=2, **sizes))
    config = LoraConfig(r=2, target_modules=["q_proj"])
    model: Any = get_peft_model(base, config)
    model.add_adapter("ref", config)
    return model


def trained_weight(model: Any) -> Any:
    (weight,) = [one for name, one in model.named_parameters() if "lora_B.default" in name]
    return weight


@pytest.mark.parametrize("patched", [False, True])
def test_the_trainer_resumes_without_the_trained_adapter(tmp_path: Path, patched: bool) -> None:
    saved = adapted_model()
    torch.nn.init.ones_(trained_weight(saved))
    saved.save_pretrained(tmp_path / "checkpoint-1")
    assert (tmp_path / "checkpoint-1" / "ref").is_dir()
    if patched:
        remove_reference_adapter(tmp_path / "checkpoint-1")
    resumed = adapted_model()
    trainer = tiny_trainer(tmp_path, model=resumed)
    trainer._load_from_checkpoint(str(tmp_path / "checkpoint-1"))
    restored = trained_weight(resumed).equal(trained_weight(saved))
    assert restored is patched, obsolete("reference_adapter")
