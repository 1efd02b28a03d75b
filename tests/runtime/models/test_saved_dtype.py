"""Full weights are trained in float32 by default, and saved in their original dtype."""

import json
import shutil
from pathlib import Path

import pytest
from tests.recipe_command import product_path, run_command
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from posttrain.runtime.events import read_events
from posttrain.runtime.models.model_saver import save_trained

pytestmark = pytest.mark.slow

PUBLISHED = """
recipe: 1
name: published
models:
  base:
    init: {model_type: qwen2, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2,
        max_position_embeddings: 64}
    tokenizer: {init: characters}
    dtype: bfloat16
stages:
  export: {export: base}
"""
TRAINED = """
recipe: 1
name: trained
models:
  base: {from: ./model}
datasets:
  sums: {from: {arithmetic: {digits: 1, count: 40}}}
stages:
  sft:
    train: sft
    model: base
    data: sums
    params: {max_steps: 6, batch_size: 8, learning_rate: 1.0e-5, lr_scheduler_type: constant_with_warmup}
"""


def test_small_steps_are_not_lost_in_bfloat16(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name, text in (("published", PUBLISHED), ("trained", TRAINED)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.yaml").write_text(text)
    assert run_command("run", tmp_path / "published", "--home", home).returncode == 0
    shutil.copytree(product_path(home, "export"), tmp_path / "trained" / "model")
    found: dict[str, tuple[list[float], str, set[str]]] = {}
    for dtype in ("auto", "float32", "bfloat16"):
        ran = run_command("run", tmp_path / "trained", "--home", home, "--set", f"models.base.dtype={dtype}")
        assert ran.returncode == 0, ran.stderr
        files = product_path(home, "sft")
        found[dtype] = (losses_of(files), *dtypes_of(files))
    assert found["auto"][0] == found["float32"][0]
    assert found["auto"][0] != found["bfloat16"][0]
    assert found["auto"][1:] == found["bfloat16"][1:] == ("bfloat16", {"BF16"})
    assert found["float32"][1:] == ("float32", {"F32"})


def test_weights_that_were_brought_together_are_narrowed_too(tmp_path: Path) -> None:
    import torch
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"a": 0})))
    shape = {"num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=8, tie_word_embeddings=True, **shape))
    out = tmp_path / "out"
    out.mkdir()
    weights = model.state_dict()
    save_trained(model, tokenizer, None, tmp_path / "scratch", out, weights, stored=torch.bfloat16)
    assert dtypes_of(out) == ("bfloat16", {"BF16"})
    again = Qwen2ForCausalLM.from_pretrained(out)
    for name, weight in again.state_dict().items():
        assert torch.equal(weight, weights[name].to(torch.bfloat16))


def losses_of(files: Path) -> list[float]:
    events = read_events(files.parent / "record" / "events.jsonl")
    return [event["values"]["loss"] for event in events if event["kind"] == "metrics"]


def dtypes_of(files: Path) -> tuple[str, set[str]]:
    """Return the dtype in the configuration, and the dtype of the weights."""
    config = json.loads((files / "config.json").read_text())
    data = (files / "model.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return config["dtype"], {held["dtype"] for name, held in header.items() if name != "__metadata__"}
