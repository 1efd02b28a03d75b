"""Weights that do not match the model's configuration are rejected."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.ppo.tiny_models import tiny_model

from posttrain.runtime.errors import StepError
from posttrain.runtime.models.model_loader import load_model
from posttrain.runtime.models.pretrained_weights import load_weights


def change_config(folder: Path, **changed: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def halve_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def layers(count: int) -> Callable[[Path], None]:
    return lambda folder: change_config(
        folder, num_hidden_layers=count, layer_types=["full_attention"] * count
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_model().save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (layers(3), "the model's files lack 12 weights: model.layers.2.input_layernorm.weight"),
        (
            layers(1),
            "contain 12 weights: model.layers.1.input_layernorm.weight, .* that config.json does not declare",
        ),
        (lambda folder: change_config(folder, vocab_size=29), r"has the shape 23 x 16 instead of 29 x 16"),
        (halve_weights, "the model's weights cannot be read"),
    ],
    ids=["deeper", "shallower", "of another shape", "cut short"],
)
def test_weights_that_do_not_fit_are_named(
    damage: Callable[[Path], None], message: str, folder: Path
) -> None:
    assert load_model(folder).config.num_hidden_layers == 2
    damage(folder)
    with pytest.raises(StepError, match=message) as fault:
        load_model(folder)
    assert "save the model again" in fault.value.advice


def test_a_scorer_s_head_is_drawn_where_the_weights_have_none(folder: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    found = load_weights(AutoModelForSequenceClassification, folder, True, {"num_labels": 1})
    assert found.score.weight.shape == (1, 16)
