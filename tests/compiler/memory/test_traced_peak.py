"""Tests the closed form against measurements: small models run a training step on meta tensors, and the
peak of all tensors matches the prediction. perf/memory.md has full-size models."""

from dataclasses import replace

import pytest

from posttrain.compiler.facts.parameter_counts import linear_module_names
from posttrain.compiler.facts.published_shapes import find_shape
from posttrain.compiler.memory.workload import LoraAdapter, Workload

FAMILIES = {
    "llama": "HuggingFaceTB/SmolLM2-360M",
    "qwen2": "Qwen/Qwen2.5-0.5B",
    "qwen3": "Qwen/Qwen3-0.6B",
    "mistral": "mistralai/Ministral-8B-Instruct-2410",
    "gemma2": "google/gemma-2-2b",
    "gemma3": "google/gemma-3-270m",
    "olmo2": "allenai/OLMo-2-0425-1B",
    "phi3": "microsoft/Phi-3-mini-4k-instruct",
    "gpt2": "openai-community/gpt2",
    "gpt_neox": "EleutherAI/pythia-160m",
    "bloom": "bigscience/bloom-560m",
    "falcon": "tiiuae/falcon-7b",
    "qwen3_moe": "Qwen/Qwen3-30B-A3B",
    "qwen3_5": "Qwen/Qwen3.5-0.8B",
}


def small_workload(name: str, **options) -> Workload:
    """Return a workload with a few layers and a small vocabulary, so that the layers dominate. Rows are
    shorter for linear attention, which is slow because it runs in chunks."""
    shape = find_shape(FAMILIES[name])
    assert shape is not None
    shape = shape._replace(layers=max(2, shape.full_every), vocab=4096)
    return Workload(model=shape, length=256 if shape.linear_keys else 512, **options)


def with_lora_everywhere(workload: Workload) -> Workload:
    return replace(workload, adapter=LoraAdapter(target_modules=linear_module_names(workload.model)))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_step_that_trains_everything(tracer, name):
    workload = small_workload(name, rows=4)
    assert tracer.predict(workload) == pytest.approx(tracer.trace(workload), rel=0.03)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_step_that_trains_an_adapter_and_recomputes(tracer, name):
    workload = with_lora_everywhere(small_workload(name, rows=8, checkpointing=True))
    assert tracer.predict(workload) == pytest.approx(tracer.trace(workload), rel=0.05)


@pytest.mark.parametrize(
    "options",
    [
        {"element": 4},
        {"element": 4, "checkpointing": True},
        {"element": 4, "autocast": False},
        {"autocast": False},
        {"loss": "full"},
        {"loss": "scores"},
        {"accumulation": 2},
        {"accumulation": 2, "loss": "full", "checkpointing": True},
        {"padded": True},
        {"packed": True},
        {"attention": "eager"},
    ],
    ids=str,
)
def test_a_step_in_other_formats_and_batches(tracer, options):
    workload = small_workload("qwen3", rows=4, **options)
    assert tracer.predict(workload) == pytest.approx(tracer.trace(workload), rel=0.03)


@pytest.mark.parametrize(
    "adapter", [LoraAdapter(element=2), LoraAdapter(dropout=0.05), LoraAdapter(rank=128)], ids=str
)
def test_a_step_with_other_adapters(tracer, adapter):
    workload = replace(small_workload("qwen2", rows=8), adapter=adapter)
    assert tracer.predict(workload) == pytest.approx(tracer.trace(workload), rel=0.03)


def test_the_tracer_counts_what_it_is_given(tracer):
    """A tensor counts while it exists, and the peak includes it."""
    import torch

    with tracer.StorageTracker() as tracker:
        first = torch.zeros(1000)
        second = first + 1
        assert tracker.now == 8000
        view = second[:10]
        del second
        assert tracker.now == 8000
        del view
        assert tracker.now == 4000
    assert tracker.peak == 8000
