"""Saves and resolves adapters, and finds their base models.

The product of a LoRA stage contains the adapter, the tokenizer and its chat template, and `base.json`, which
names the product of the base model in the same store.
"""

from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.runtime.store.product_outline import BASE_FILE, product_folder

_CONFIG_FILE = "adapter_config.json"
# PEFT's task types of a scorer and of a language model.
SEQ_CLS = "SEQ_CLS"
CAUSAL_LM = "CAUSAL_LM"


def is_adapter(folder: Path) -> bool:
    """Whether a product is an adapter instead of full weights."""
    return (folder / BASE_FILE).exists()


def base_model_dir(folder: Path) -> Path:
    """Return the folder of an adapter's base model."""
    found = atomic_io.read_json(folder / BASE_FILE)
    key = found["key"]
    base = folder.parent.parent / key / "files" / Path(found.get("output", "")).name
    if not base.is_dir():
        raise StepError(
            f"the base model of the adapter, product {key}, is missing from the store",
            "run the recipe again, which recreates it",
        )
    return base


def product_key(folder: Path) -> str:
    """Return the key of the product with this files folder, and after a slash the output of a script."""
    product = product_folder(folder)
    return product.name if folder.parent == product else f"{product.name}/{folder.name}"


def adapter_task(folder: Path) -> str:
    """Return the task type of an adapter: language model or scorer."""
    return atomic_io.read_json(folder / _CONFIG_FILE)["task_type"]


def save_adapter(model: Any, folder: Path, base: str, **arguments: Any) -> None:
    """Save the trained adapter without its base model, and the `product_key` of the base model."""
    config = model.peft_config["default"]
    # Products must not contain local paths. We read base.json; this relative path is for PEFT.
    key, _, output = base.partition("/")
    config.base_model_name_or_path = "/".join(filter(None, ("../..", key, "files", output)))
    config.target_modules = sorted(config.target_modules)
    if getattr(config, "feedforward_modules", None):
        config.feedforward_modules = sorted(config.feedforward_modules)
    model.save_pretrained(folder, selected_adapters=["default"], safe_serialization=True, **arguments)
    (folder / "README.md").unlink(missing_ok=True)
    atomic_io.write_json(folder / BASE_FILE, {"key": key, "output": output} if output else {"key": key})
