"""Adapters as products: which base one stands on, what a new one trains, how one is saved.

The product of a LoRA stage holds the adapter, the tokenizer and its template, and `base.json`,
which names the product that it stands on: a sibling in the same store.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.compiler.facts.model_shapes import find_architecture
from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError

BASE_FILE = "base.json"
_CONFIG_FILE = "adapter_config.json"
# What a scorer has that a writer has not: PEFT's name for the task.
SEQ_CLS = "SEQ_CLS"
CAUSAL_LM = "CAUSAL_LM"


def is_adapter(folder: Path) -> bool:
    """Whether a product is an adapter, and not whole weights."""
    return (folder / BASE_FILE).exists()


def base_model_dir(folder: Path) -> Path:
    """The product that an adapter stands on."""
    key = atomic_io.read_json(folder / BASE_FILE)["key"]
    base = folder.parent.parent / key / "files"
    if not base.is_dir():
        raise StepError(
            f"the adapter stands on the product {key}, which is not in the store any more",
            "run the recipe again: the stage that made it runs again",
        )
    return base


def product_key(folder: Path) -> str:
    """The key of the product whose files are in this folder."""
    return folder.parent.name


def adapter_task(folder: Path) -> str:
    """What an adapter's model does: write text, or score it."""
    return atomic_io.read_json(folder / _CONFIG_FILE)["task_type"]


def new_lora_config(adapter: Mapping[str, Any], model: Any, task: str) -> Any:
    """The configuration of an adapter that starts at zero."""
    from peft import LoraConfig
    from transformers.pytorch_utils import Conv1D

    return LoraConfig(
        r=adapter["r"],
        lora_alpha=adapter["lora_alpha"],
        use_rslora=adapter.get("use_rslora", False),
        lora_dropout=adapter["lora_dropout"],
        target_modules=resolve_target_modules(adapter["target_modules"], model),
        # GPT-2 keeps its weights the other way round.
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
        bias="none",
        task_type=task,
    )


def resolve_target_modules(target_modules: str | Sequence[str], model: Any) -> list[str]:
    """The names of the modules that get an adapter; all of them exist in the model."""
    linear = linear_modules(model)
    if target_modules == "all-linear":
        return linear
    if target_modules == "auto":
        found = find_architecture(model.config.model_type)
        target_modules = found.lora if found else ()
        if not target_modules:
            raise StepError(
                f"`target_modules: auto` knows no modules for the architecture {model.config.model_type}",
                f"name them under adapter.target_modules; it has {', '.join(linear)}",
            )
    missing = [name for name in target_modules if not any(_matches_module(module, name) for module in linear)]
    if missing:
        raise StepError(
            f"the model has no modules named {', '.join(missing)} for an adapter to go on",
            f"it has {', '.join(linear)}",
        )
    return list(target_modules)


def _matches_module(module: str, name: str) -> bool:
    return module == name or name.endswith(f".{module}")


def linear_modules(model: Any) -> list[str]:
    """The last names of the modules that an adapter can go on, the output layer aside."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    names = {
        name.rpartition(".")[2]
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | Conv1D) and module is not head
    }
    return sorted(names - {"score"})


def save_adapter(model: Any, folder: Path, base: str, **arguments: Any) -> None:
    """Write the trained adapter alone, and the key of the product that it stands on."""
    config = model.peft_config["default"]
    # A path of this machine has no place in a product; base.json is what counts.
    config.base_model_name_or_path = f"../../{base}/files"
    config.target_modules = sorted(config.target_modules)
    model.save_pretrained(folder, selected_adapters=["default"], safe_serialization=True, **arguments)
    (folder / "README.md").unlink(missing_ok=True)
    atomic_io.write_json(folder / BASE_FILE, {"key": base})
