"""TRL starts vLLM on the stored weights, even if the trainer has loaded them quantized."""

import inspect

import pytest
from tests.runtime.trl_compat.necessity import obsolete
from trl.generation import vllm_generation

from posttrain.runtime.trl_compat.vllm_bitsandbytes import disable_vllm_bitsandbytes


def test_trl_asks_of_bitsandbytes_only_how_vllm_is_to_quantize(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL's module calls it in only one place, so patching it has no other effect."""
    name = "is_bitsandbytes_available"
    whole, started = (
        inspect.getsource(part)
        for part in (vllm_generation.VLLMGeneration, vllm_generation.VLLMGeneration._init_vllm)
    )
    asked = started.partition(f"if {name}():")[2].partition("self.llm = LLM(")[0]
    assert 'quantization = "bitsandbytes"' in asked, obsolete("vllm_bitsandbytes")
    assert whole.count(name) == started.count(name) == 1
    monkeypatch.setattr(vllm_generation, name, lambda: True)
    disable_vllm_bitsandbytes()
    assert vllm_generation.is_bitsandbytes_available() is False
