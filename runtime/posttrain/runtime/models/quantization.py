"""Loads quantized base weights for adapters. Requires a GPU and bitsandbytes."""

from pathlib import Path
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.models import model_origin, peft_adapters
from posttrain.spec.step_params.adapter_options import AdapterOptions


def quantization_type(adapter: AdapterOptions, folder: Path) -> str:
    """Return the quantization of the frozen weights under an adapter: none, int8 or nf4."""
    if adapter.type == "qlora":
        return "nf4"
    while peft_adapters.is_adapter(folder):
        folder = peft_adapters.base_model_dir(folder)
    return model_origin.read_origin(folder).get("quantize", "none")


def quantization_arguments(quantize: str) -> dict[str, Any]:
    """Return the arguments of `from_pretrained` for a quantization."""
    if quantize == "none":
        return {}
    import torch

    _check_available(quantize)
    from transformers import BitsAndBytesConfig

    # The current device: each of several processes has its own GPU.
    place = {"": torch.cuda.current_device()}
    if quantize == "int8":
        return {"quantization_config": BitsAndBytesConfig(load_in_8bit=True), "device_map": place}
    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=_compute_dtype(),
    )
    return {"quantization_config": config, "device_map": place}


def _compute_dtype() -> Any:
    """Return bfloat16, or float16 for older GPUs, which only emulate bfloat16."""
    import torch

    able = torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if able else torch.float16


def _check_available(quantize: str) -> None:
    from importlib.util import find_spec

    import torch

    advice = "train with `adapter: {type: lora}` instead"
    if not torch.cuda.is_available():
        raise StepError(
            f"{quantize} quantization needs a CUDA GPU, but this machine has none",
            f"run on a machine with a CUDA GPU, or {advice}",
        )
    if find_spec("bitsandbytes") is None:
        raise StepError(
            f"{quantize} quantization needs bitsandbytes, which is not installed",
            f"install posttrain with its extra `cuda`, or {advice}",
        )
