"""Converts adapters whose initialization changed the base weights to plain LoRA on the unchanged weights.

PiSSA and OLoRA subtract the initial product B0 A0 from the base weights. A trained adapter B A on them equals
the adapter [B | -B0] [A ; A0], of twice the rank, on the original weights. PEFT's own conversion loses all
other trained weights, such as `modules_to_save` and the magnitudes of DoRA.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io

_WEIGHTS_FILE = "adapter_model.safetensors"
_CONFIG_FILE = "adapter_config.json"


def initial_matrices(model: Any) -> dict[str, Any]:
    """Return copies of the LoRA matrices before training, by the names that PEFT saves them under."""
    from peft import get_peft_model_state_dict

    state = get_peft_model_state_dict(model, adapter_name="default", save_embedding_layers=False)
    return {name: weight.detach().cpu().clone() for name, weight in state.items() if _is_matrix(name)}


def _is_matrix(name: str) -> bool:
    return ".lora_A." in name or ".lora_B." in name


def convert_saved_adapter(folder: Path, initial: Mapping[str, Any]) -> None:
    """Replace the files of a saved adapter by those of the equal LoRA adapter on the unchanged weights."""
    import torch
    from safetensors.torch import load_file, save_file

    weights = load_file(str(folder / _WEIGHTS_FILE))
    for name, start in initial.items():
        trained, first = weights[name], ".lora_A." in name
        other = start.to(trained.dtype) if first else -start.to(trained.dtype)
        weights[name] = torch.cat((trained, other), dim=0 if first else 1).contiguous()
    save_file(weights, str(folder / _WEIGHTS_FILE), metadata={"format": "pt"})
    config = atomic_io.read_json(folder / _CONFIG_FILE)
    scale = 2**0.5 if config["use_rslora"] else 2
    config |= {
        "r": 2 * config["r"],
        "lora_alpha": scale * config["lora_alpha"],
        "rank_pattern": {name: 2 * rank for name, rank in config["rank_pattern"].items()},
        "alpha_pattern": {name: scale * alpha for name, alpha in config["alpha_pattern"].items()},
        "init_lora_weights": True,
    }
    atomic_io.write_json(folder / _CONFIG_FILE, config, sync=False)
