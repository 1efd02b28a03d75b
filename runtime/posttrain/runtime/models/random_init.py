"""Creates a model with random weights from a declared architecture."""

from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.spec.architectures.shape_from_init import shape_from_init as shape_of
from posttrain.spec.architectures.transformers_config import transformers_config
from posttrain.spec.model_declaration import RandomInit


def random_model(declared: RandomInit, tokenizer: Any, vocabulary: int, seed: int) -> Any:
    """Create the model with a number of embeddings, with weights that depend on the seed."""
    from transformers import AutoConfig, AutoModelForCausalLM, set_seed

    set_seed(seed)
    config = AutoConfig.for_model(**_model_config(declared, vocabulary))
    config.pad_token_id = tokenizer.pad_token_id
    config.eos_token_id = tokenizer.eos_token_id
    config.bos_token_id = tokenizer.bos_token_id
    model = AutoModelForCausalLM.from_config(config)
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model


def _model_config(declared: RandomInit, vocabulary: int) -> dict[str, Any]:
    """Return the transformers configuration of the declared shape, which the compiler also uses."""
    names = {
        "layers": "num_hidden_layers",
        "hidden": "hidden_size",
        "heads": "num_attention_heads",
        "kv_heads": "num_key_value_heads",
        "intermediate": "intermediate_size",
        "context": "max_position_embeddings",
        "tied": "tie_word_embeddings",
    }
    shape = shape_of(
        declared.model_type, vocab=vocabulary, **{name: getattr(declared, key) for name, key in names.items()}
    )
    if shape is None:
        raise StepError(f"unknown model_type `{declared.model_type}`")
    configuration = {**transformers_config(shape), "dtype": "float32"}
    if declared.rope_theta is not None:
        configuration["rope_parameters"] = {"rope_type": "default", "rope_theta": declared.rope_theta}
    if declared.initializer_range is not None:
        configuration["initializer_range"] = declared.initializer_range
    return configuration
