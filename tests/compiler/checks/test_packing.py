"""Packing is refused for models that do not keep packed rows apart."""

import pytest
from tests.compiler.checks.stage_compilation import codes_of, stage_recipe


def codes_for(family: str, more: str) -> list[str]:
    return codes_of(stage_recipe("sft", more).replace("model_type: qwen2", f"model_type: {family}"))


@pytest.mark.parametrize("family", ["bloom", "falcon", "qwen3_5_text"])
def test_a_family_that_mixes_rows_is_refused(family: str) -> None:
    more = "params: {epochs: 1, batch_size: 4, packing: true}"
    assert codes_for(family, more) == ["PT0648"]
    assert codes_for(family, more.replace("true", "false")) == []


@pytest.mark.parametrize("family", ["qwen2", "gemma3_text", "gpt2"])
def test_other_families_are_accepted(family: str) -> None:
    assert codes_for(family, "params: {epochs: 1, batch_size: 4, packing: true}") == []


def test_rows_without_padding_must_be_packed() -> None:
    packed = "params: {epochs: 1, batch_size: 4, packing: true}, trl: {padding_free: true}"
    assert codes_for("qwen2", packed) == []
    assert codes_for("qwen2", packed.replace("packing: true", "packing: false")) == ["PT0649"]
    assert codes_for("qwen2", "trl: {padding_free: false}") == []
