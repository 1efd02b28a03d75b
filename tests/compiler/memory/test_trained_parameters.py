"""Tests the numbers of trained parameters against models that PEFT adapts, and the names of parameters
against transformers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from tests.compiler.memory.test_model_shapes import FAMILIES, build_meta_model, smallest_shape

from posttrain.compiler.facts.parameter_names import embedding_modules, named_parameters
from posttrain.compiler.facts.trained_parameters import is_selected, trained_parameter_count
from posttrain.runtime.models.parameter_freezing import freeze_parameters
from posttrain.runtime.models.peft_config import new_adapter_config
from posttrain.spec.adapter_declaration import Adapter
from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.architectures.shape_from_init import shape_from_init
from posttrain.spec.architectures.transformers_config import transformers_config
from posttrain.spec.step_params.adapter_options import adapter_options

# Architectures with experts or linear attention, whose parameters have no names in the compiler.
UNNAMED = {"llama4_text", "mixtral", "phimoe", "qwen3_5_text", "qwen3_moe"}
ADAPTERS = {
    "lora": Adapter(r=4),
    "dora": Adapter(r=4, use_dora=True),
    "all-linear": Adapter(r=4, target_modules="all-linear"),
    "patterns": Adapter(
        r=4,
        target_modules="all-linear",
        rank_pattern={"0.mlp.*": 7, ".*(q_proj|c_attn|query_key_value)": 8},
        layers_to_transform=(0, 2),
    ),
    "biases": Adapter(r=4, bias="all"),
    "biases of targets": Adapter(r=4, bias="lora_only"),
    "whole modules": Adapter(r=4, modules_to_save=("norm",)),
    "tokens": Adapter(r=4, trainable_token_indices=(3, 5, 3)),
    "ia3": Adapter(type="ia3"),
    "oft": Adapter(type="oft", oft_block_size=8),
    "vera": Adapter(type="vera", r=8),
}
# OFT does not support the transposed weights of GPT-2.
COMBINATIONS = [
    (case, family)
    for case in ADAPTERS
    for family in ("llama", "qwen2", "gpt2")
    if (case, family) != ("oft", "gpt2")
]


def tiny_shape(model_type: str, *, tied: bool = False) -> Shape:
    shape = shape_from_init(
        model_type, layers=3, hidden=32, heads=4, kv_heads=2, vocab=40, context=16, tied=tied
    )
    assert shape is not None
    return shape


def tiny_model(shape: Shape) -> Any:
    return build_meta_model(transformers_config(shape))


@contextmanager
def on_meta() -> Iterator[None]:
    with torch.device("meta"):
        yield


def trained(model: Any) -> int:
    """Count tied weights once."""
    return sum(p.numel() for p in {id(p): p for p in model.parameters() if p.requires_grad}.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_have_the_names_of_transformers(family: str) -> None:
    shape = smallest_shape(family)
    known = named_parameters(shape)
    if family in UNNAMED:
        assert known is None
        return
    assert known is not None
    model = build_meta_model(transformers_config(shape))
    assert dict(known) == {name: weight.numel() for name, weight in model.named_parameters()}
    modules = dict(model.named_modules())
    names = embedding_modules(shape)
    assert modules[names[0]] is model.get_input_embeddings()
    assert modules[names[1]] is model.get_output_embeddings()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("case", "family"), COMBINATIONS)
def test_an_adapter_trains_as_many_parameters_as_in_peft(case: str, family: str, tied: bool) -> None:
    from peft import get_peft_model

    adapter, shape = ADAPTERS[case], tiny_shape(family, tied=tied)
    if case == "tokens" and not tied:
        adapter = adapter.model_copy(update={"modules_to_save": ("lm_head",)})
    if family == "gpt2" and case == "whole modules":
        adapter = Adapter(r=4, modules_to_save=("ln_f",))
    from transformers import AutoConfig, AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**transformers_config(shape)))
    config = new_adapter_config(adapter_options(adapter), model, None, "CAUSAL_LM")
    assert trained(get_peft_model(model, config)) == trained_parameter_count(adapter, shape)


@pytest.mark.parametrize(
    ("trainable", "freeze"),
    [
        (("model.layers.1.*",), ()),
        (("*.mlp.*", "lm_head.weight"), ("model.layers.0.*",)),
        ((), ("model.embed_tokens.*", "*norm*")),
        ((), ()),
    ],
)
def test_patterns_select_the_same_parameters_in_the_plan_and_in_the_model(
    trainable: tuple[str, ...], freeze: tuple[str, ...]
) -> None:
    adapter, shape = Adapter(type="full", trainable=trainable, freeze=freeze), tiny_shape("qwen2")
    model = tiny_model(shape)
    freeze_parameters(model, adapter_options(adapter))
    assert {n for n, p in model.named_parameters() if p.requires_grad} == {
        n for n, _ in model.named_parameters() if is_selected(n, trainable, freeze)
    }
    assert trained(model) == trained_parameter_count(adapter, shape)


def test_a_scorer_has_a_head_with_one_output() -> None:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    for tied in (False, True):
        shape = tiny_shape("qwen2", tied=tied)
        config = AutoConfig.for_model(**transformers_config(shape), num_labels=1)
        with on_meta():
            model = AutoModelForSequenceClassification.from_config(config)
        assert trained(model) == trained_parameter_count(None, shape, scorer=True)


def test_the_parameters_of_unnamed_architectures_are_unknown_only_where_names_matter() -> None:
    shape = smallest_shape("qwen3_moe")
    assert trained_parameter_count(Adapter(r=4), shape) is not None
    assert trained_parameter_count(None, shape) is not None
    assert trained_parameter_count(Adapter(r=4, modules_to_save=("norm",)), shape) is None
    assert trained_parameter_count(Adapter(type="full", freeze=("*norm*",)), shape) is None
