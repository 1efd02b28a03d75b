"""Folders of merged weights get a tokenizer, which vLLM loads from there."""

import ast
import inspect
import textwrap
from pathlib import Path
from types import SimpleNamespace

from tests.runtime.trl_compat.necessity import obsolete
from trl.generation.vllm_generation import VLLMGeneration

from posttrain.runtime.trl_compat.vllm_tokenizer import save_tokenizer_beside_weights


def test_trl_starts_vllm_without_a_tokenizer() -> None:
    tree = ast.parse(textwrap.dedent(inspect.getsource(VLLMGeneration._init_vllm)))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    (start,) = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "LLM"]
    named = {keyword.arg for keyword in start.keywords}
    assert "model" in named
    assert "tokenizer" not in named, obsolete("vllm_tokenizer")


def test_weights_that_the_stage_has_merged_get_a_tokenizer_and_products_none(tmp_path: Path) -> None:
    saved: list[Path] = []
    tokenizer = SimpleNamespace(save_pretrained=saved.append)
    scratch, merged, product = tmp_path / "scratch", tmp_path / "scratch" / "merged", tmp_path / "store"
    for folder in (merged, product):
        save_tokenizer_beside_weights(SimpleNamespace(name_or_path=str(folder)), tokenizer, scratch)
    assert saved == [merged]
