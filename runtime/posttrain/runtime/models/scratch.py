"""Makes a model with random weights from a declared shape."""

from collections.abc import Mapping
from typing import Any

from posttrain.compiler.facts.configs import transformers_config
from posttrain.compiler.facts.scratch import scratch as shape_of
from posttrain.runtime.faults import StepFault


def scratch(declared: Mapping[str, Any], tokenizer: Any, seed: int) -> Any:
    """The model, its weights drawn from the seed."""
    from transformers import AutoConfig, AutoModelForCausalLM, set_seed

    set_seed(seed)
    config = AutoConfig.for_model(**_configuration(declared, len(tokenizer)))
    config.pad_token_id = tokenizer.pad_token_id
    config.eos_token_id = tokenizer.eos_token_id
    config.bos_token_id = tokenizer.bos_token_id
    model = AutoModelForCausalLM.from_config(config)
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model


def _configuration(declared: Mapping[str, Any], vocabulary: int) -> dict[str, Any]:
    """What transformers builds the declared shape from: the shape that the compiler reckons with."""
    names = ("layers", "hidden", "heads", "kv_heads", "intermediate", "context", "tied")
    shape = shape_of(declared["family"], vocab=vocabulary, **{name: declared[name] for name in names})
    if shape is None:
        raise StepFault(f"no architecture is named `{declared['family']}`")
    configuration = {**transformers_config(shape), "dtype": "float32"}
    if declared["rope_theta"] is not None:
        configuration["rope_parameters"] = {"rope_type": "default", "rope_theta": declared["rope_theta"]}
    if declared["spread"] is not None:
        configuration["initializer_range"] = declared["spread"]
    return configuration
