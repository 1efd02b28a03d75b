"""Configures, saves and resolves adapters, and finds their base models.

The product of a LoRA stage contains the adapter, the tokenizer and its chat template, and `base.json`, which
names the product of the base model in the same store.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.runtime.store.product_outline import BASE_FILE
from posttrain.spec.architectures.model_shapes import find_architecture
from posttrain.spec.step_params.train_params import AdapterOptions

_CONFIG_FILE = "adapter_config.json"
# PEFT's task types of a scorer and of a language model.
SEQ_CLS = "SEQ_CLS"
CAUSAL_LM = "CAUSAL_LM"


def is_adapter(folder: Path) -> bool:
    """Whether a product is an adapter instead of full weights."""
    return (folder / BASE_FILE).exists()


def base_model_dir(folder: Path) -> Path:
    """Return the folder of an adapter's base model."""
    key = atomic_io.read_json(folder / BASE_FILE)["key"]
    base = folder.parent.parent / key / "files"
    if not base.is_dir():
        raise StepError(
            f"the base model of the adapter, product {key}, is missing from the store",
            "run the recipe again, which recreates it",
        )
    return base


def product_key(folder: Path) -> str:
    """Return the key of the product with this files folder."""
    return folder.parent.name


def adapter_task(folder: Path) -> str:
    """Return the task type of an adapter: language model or scorer."""
    return atomic_io.read_json(folder / _CONFIG_FILE)["task_type"]


def new_lora_config(adapter: AdapterOptions, model: Any, task: str) -> Any:
    """Return the configuration of a new LoRA adapter."""
    from peft import LoraConfig
    from transformers.pytorch_utils import Conv1D

    return LoraConfig(
        r=adapter.r,
        lora_alpha=cast(int, adapter.lora_alpha),
        use_rslora=adapter.use_rslora,
        lora_dropout=adapter.lora_dropout,
        target_modules=resolve_target_modules(adapter.target_modules, model),
        # GPT-2's Conv1D layers have transposed weights.
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
        bias="none",
        task_type=task,
    )


def resolve_target_modules(target_modules: str | Sequence[str], model: Any) -> list[str]:
    """Return the names of the modules that get an adapter. Raises StepError for unknown names."""
    linear = linear_modules(model)
    if target_modules == "all-linear":
        return linear
    if target_modules == "auto":
        architecture = find_architecture(model.config.model_type)
        target_modules = architecture.lora if architecture else ()
        if not target_modules:
            raise StepError(
                f"`target_modules: auto` does not support the architecture {model.config.model_type}",
                f"list modules in adapter.target_modules; the model has {', '.join(linear)}",
            )
    missing = [name for name in target_modules if not any(_matches_module(module, name) for module in linear)]
    if missing:
        raise StepError(
            f"the model has no linear modules named {', '.join(missing)}, which target_modules lists",
            f"its linear modules are {', '.join(linear)}",
        )
    return list(target_modules)


def _matches_module(module: str, name: str) -> bool:
    return module == name or name.endswith(f".{module}")


def linear_modules(model: Any) -> list[str]:
    """Return the last name components of the model's linear modules, without the output layer."""
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
    """Save the trained adapter without its base model, and the key of the base model's product."""
    config = model.peft_config["default"]
    # Products must not contain local paths. We read base.json; this relative path is for PEFT.
    config.base_model_name_or_path = f"../../{base}/files"
    config.target_modules = sorted(config.target_modules)
    model.save_pretrained(folder, selected_adapters=["default"], safe_serialization=True, **arguments)
    (folder / "README.md").unlink(missing_ok=True)
    atomic_io.write_json(folder / BASE_FILE, {"key": base})
