"""Tests that a shape survives the round trip through a configuration file."""

from typing import Any

import pytest

from posttrain.compiler.facts.published_shapes import find_shape, published_model_ids
from posttrain.compiler.facts.shape_from_config import shape_from_config
from posttrain.spec.architectures.transformers_config import transformers_config

DENSE = [
    name
    for name in published_model_ids()
    if (shape := find_shape(name)) and not (shape.experts or shape.linear_keys)
]
DENSE = [name for name in DENSE if "falcon" not in name.lower()]


@pytest.mark.parametrize("name", DENSE)
def test_the_shape_comes_back(name: str) -> None:
    shape = find_shape(name)
    assert shape is not None
    config = transformers_config(shape)
    assert shape_from_config(name, config) == shape


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "qwen2"},
        {"model_type": "qwen2", "hidden_size": "wide"},
        {"model_type": "qwen2", "layer_types": 3},
    ],
)
def test_what_says_too_little_gives_no_shape(config: dict[str, Any]) -> None:
    assert shape_from_config("it", config) is None
