"""Tests the catalog against transformers: every model is built without weights and its parameters are
counted."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.pytorch_utils import Conv1D

from posttrain.compiler.facts import parameter_counts
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.compiler.facts.published_shapes import find_shape, published_model_ids
from posttrain.spec.architectures.model_shapes import Shape, architecture_names, find_architecture
from posttrain.spec.architectures.shape_from_init import shape_from_init
from posttrain.spec.architectures.transformers_config import transformers_config

ROWS = load_table("models")
FIRST = [row["ids"][0] for row in ROWS]
FAMILIES = sorted({row["architecture"] for row in ROWS})
# Not for adapters: the head, and routers that are linear layers.
NO_TARGET = ("lm_head", "router")
# Architectures that `init` supports too, by the name in transformers and our name.
PLAIN = [n for n in architecture_names() if (arch := find_architecture(n)) and arch.model_type == n]


def shape_of(name: str) -> Shape:
    shape = find_shape(name)
    assert shape is not None
    return shape


def build_meta_model(config: dict[str, object]) -> torch.nn.Module:
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))


def count_model_parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def smallest_shape(family: str) -> Shape:
    shapes = (shape_of(row["ids"][0]) for row in ROWS if row["architecture"] == family)
    return min(shapes, key=parameter_counts.count_parameters)


@pytest.mark.parametrize("name", FIRST)
def test_transformers_builds_as_many_parameters(name):
    shape = shape_of(name)
    assert parameter_counts.count_parameters(shape) == count_model_parameters(
        build_meta_model(transformers_config(shape))
    )


@pytest.mark.parametrize("row", [r for r in ROWS if "published" in r], ids=lambda r: r["ids"][0])
def test_the_hub_publishes_as_many_parameters(row):
    assert parameter_counts.count_parameters(shape_of(row["ids"][0])) == row["published"]


def test_every_family_of_the_table_is_one_that_a_model_has():
    assert sorted(architecture_names()) == FAMILIES


@pytest.mark.parametrize("family", PLAIN)
def test_a_model_from_nothing_counts_as_transformers_builds_it(family):
    shape = shape_from_init(family, layers=6, hidden=128, heads=4, vocab=200, context=64)
    assert shape is not None
    config = {
        "num_hidden_layers": 6,
        "hidden_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 32,
        "intermediate_size": 512,
        "max_position_embeddings": 64,
        "vocab_size": 200,
        "tie_word_embeddings": True,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    if family == "gpt2":
        config["n_inner"] = config.pop("intermediate_size")
    if family == "bloom":
        config.pop("intermediate_size")
    if family == "falcon":
        config.pop("head_dim")
    assert parameter_counts.count_parameters(shape) == count_model_parameters(
        build_meta_model({"model_type": family, **config})
    )


def test_an_unknown_family_has_no_shape():
    assert shape_from_init("qwen17", layers=1, hidden=64, heads=1, vocab=10) is None
    # our name: in transformers it is falcon with other settings
    assert shape_from_init("falcon_alibi", layers=1, hidden=64, heads=1, vocab=10) is None


@pytest.mark.parametrize("family", FAMILIES)
def test_adapters_go_where_the_table_says(family):
    """Every name is a linear layer of the real model, and no other linear layer is missing."""
    shape = smallest_shape(family)
    model = build_meta_model(transformers_config(shape))
    linear = {
        name.rpartition(".")[2]
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear | Conv1D) and not name.endswith(NO_TARGET)
    }
    assert set(parameter_counts.linear_module_names(shape)) == linear
    assert set(shape.architecture.lora) <= linear


@pytest.mark.parametrize("family", FAMILIES)
def test_an_adapter_has_as_many_parameters_as_peft_gives_it(family):
    from peft import LoraConfig, get_peft_model

    shape = smallest_shape(family)
    for targets in (shape.architecture.lora, parameter_counts.linear_module_names(shape)):
        config = LoraConfig(r=8, target_modules=list(targets), fan_in_fan_out=family == "gpt2")
        with torch.device("meta"):
            adapted = get_peft_model(build_meta_model(transformers_config(shape)), config)
        learning = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
        assert parameter_counts.adapter_parameters(shape, targets, 8) == learning


@pytest.mark.parametrize("family", FAMILIES)
def test_quantizable_weights_are_those_of_linear_layers(family):
    shape = smallest_shape(family)
    matrices = sum(
        module.weight.numel()
        for name, module in build_meta_model(transformers_config(shape)).named_modules()
        if isinstance(module, torch.nn.Linear | Conv1D) and not name.endswith(NO_TARGET)
    )
    assert parameter_counts.quantizable_parameters(shape) == matrices


def test_a_model_is_found_whatever_its_case_and_owner():
    one = shape_of("Qwen/Qwen2.5-0.5B-Instruct")
    assert shape_of("qwen/qwen2.5-0.5b-instruct")._replace(name=one.name) == one
    assert shape_of("unsloth/Qwen2.5-0.5B-Instruct")._replace(name=one.name) == one
    assert find_shape("Qwen/Qwen2.5-0.6B") is None


def test_no_id_stands_for_two_shapes():
    ids = [name.lower() for name in published_model_ids()]
    assert len(ids) == len(set(ids))


def test_experts_that_are_not_chosen_are_not_active():
    shape = shape_of("Qwen/Qwen3-30B-A3B")
    assert 3.2e9 < parameter_counts.active_parameters(shape) < 3.4e9  # the 3B of the name, plus embeddings
    assert parameter_counts.active_parameters(shape_of("Qwen/Qwen3-8B")) == parameter_counts.count_parameters(
        shape_of("Qwen/Qwen3-8B")
    )
