"""The maximum size of the files of an exported model."""

from pathlib import Path
from typing import Any

import pytest
from tests.recipe_command import file_digests
from tests.runtime.methods.stage_harness import StageHarness, compile_or_errors, recipe, warnings

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.runtime.models import weight_shards
from posttrain.runtime.models.model_loader import load_model
from posttrain.runtime.models.weight_shards import split_weights


def small_model(*, tied: bool = True) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM, set_seed

    set_seed(0)
    sizes: Any = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 40}
    heads: Any = {"num_attention_heads": 2, "num_key_value_heads": 2, "tie_word_embeddings": tied}
    return Qwen2ForCausalLM(Qwen2Config(**sizes, **heads))


@pytest.mark.parametrize("tied", [False, True])
def test_the_files_are_those_of_transformers(tied: bool, tmp_path: Path) -> None:
    model = small_model(tied=tied)
    model.save_pretrained(tmp_path / "one")
    model.save_pretrained(tmp_path / "many", max_shard_size="20KB")
    assert split_weights(tmp_path / "one", "20KB") == []
    found, expected = (
        atomic_io.read_json(tmp_path / name / weight_shards.INDEX_FILE) for name in ("one", "many")
    )
    assert found["metadata"]["total_size"] == expected["metadata"]["total_size"]
    assert found["weight_map"].keys() == expected["weight_map"].keys()
    files = [path.stat().st_size for path in (tmp_path / "one").glob("*.safetensors")]
    assert len(files) == len(set(expected["weight_map"].values())) > 3
    assert max(files) < 25_000  # 20 KB of weights, and the header
    states = [load_model(tmp_path / name).state_dict() for name in ("one", "many")]
    assert all(states[0][name].equal(weight) for name, weight in states[1].items())


def test_a_larger_size_joins_the_files_again(tmp_path: Path) -> None:
    model = small_model()
    model.save_pretrained(tmp_path / "many", max_shard_size="20KB")
    model.save_pretrained(tmp_path / "one")
    assert split_weights(tmp_path / "many", "1.5MB") == []
    joined, saved = file_digests(tmp_path / "many"), file_digests(tmp_path / "one")
    assert joined.keys() == saved.keys()
    assert [path.name for path in (tmp_path / "many").glob("model*")] == ["model.safetensors"]


def test_files_that_differ_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import safetensors.torch

    save = safetensors.torch.save_file

    def damaged(tensors: dict[str, Any], path: Path, **options: Any) -> None:
        next(iter(tensors.values())).view(-1)[0] += 1
        save(tensors, path, **options)

    small_model().save_pretrained(tmp_path, max_shard_size="50MB")
    before = file_digests(tmp_path)
    monkeypatch.setattr(safetensors.torch, "save_file", damaged)
    with pytest.raises(StepError, match="differs from the weights"):
        split_weights(tmp_path, "20KB")
    assert before.items() <= file_digests(tmp_path).items()


def test_an_adapter_is_one_file() -> None:
    _, errors = compile_or_errors(recipe("alone: {export: sft, merge: false, max_shard_size: 5GB}"))
    assert any("max_shard_size has no effect with `merge: false`" in each for each in errors), errors
    _, errors = compile_or_errors(recipe("alone: {export: sft, max_shard_size: 5 gigabytes}"))
    assert errors


@pytest.mark.slow
def test_an_export_has_files_of_this_size(bench: StageHarness) -> None:
    made = bench.run(recipe("whole: {export: base}", "split: {export: base, max_shard_size: 10KB}"))
    states = [load_model(made[name].files).state_dict() for name in ("whole", "split")]
    assert all(states[0][name].equal(weight) for name, weight in states[1].items())
    assert len(list(made["split"].files.glob("*.safetensors"))) > 3
    assert any("larger than 10KB" in each for each in warnings(made["split"]))
