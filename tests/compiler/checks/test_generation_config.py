"""The generation config of a local model, and the parameters that `auto` leaves to the model."""

from typing import Any

import pytest

from posttrain.compiler.stages.inference import sampling_params
from posttrain.spec.generation_config import decoding_settings
from posttrain.spec.inference import Sampling
from posttrain.spec.validation import parse_declaration


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"eos_token_id": [1, 2], "pad_token_id": 0, "transformers_version": "5"},
        {"temperature": 1.0, "top_p": 1.0, "repetition_penalty": 1.0, "num_beams": 1, "do_sample": False},
        {"max_length": 2048, "use_cache": True, "suppress_tokens": None, "bad_words_ids": []},
    ],
)
def test_a_config_without_effect_is_not_reported(config: dict[str, Any]) -> None:
    assert decoding_settings(config) == {}


def test_every_other_field_is_reported() -> None:
    config = {"repetition_penalty": 1.05, "no_repeat_ngram_size": 3, "min_length": 5, "field_of_tomorrow": 2}
    assert decoding_settings({**config, "eos_token_id": 2}) == config


def test_auto_leaves_to_the_model_what_the_recipe_does_not_set() -> None:
    given = parse_declaration(Sampling, {"generation_config": "auto", "temperature": 0.5, "top_k": 0})
    assert sampling_params(given).model_defaults == ("top_p", "min_p", "repetition_penalty")
    fixed = sampling_params(parse_declaration(Sampling, {"temperature": 0.5}))
    assert "model_defaults" not in fixed.model_dump(), "plans of other recipes do not change"


def test_auto_may_sample_unless_the_recipe_sets_the_temperature() -> None:
    assert not parse_declaration(Sampling, {"generation_config": "auto"}).is_greedy
    assert parse_declaration(Sampling, {"generation_config": "auto", "temperature": 0.0}).is_greedy
    assert parse_declaration(Sampling, {}).is_greedy
    parse_declaration(Sampling, {"generation_config": "auto", "top_p": 0.5})
    with pytest.raises(ValueError, match="no effect at temperature 0"):
        parse_declaration(Sampling, {"top_p": 0.5})
