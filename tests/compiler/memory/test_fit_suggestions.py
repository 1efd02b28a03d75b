"""Tests every suggestion: it fits, and it changes no more than it says."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from posttrain.compiler.facts.accelerators import find_accelerator
from posttrain.compiler.facts.published_shapes import find_shape
from posttrain.compiler.memory.fit_suggestions import largest_fitting_micro_batch, suggest_fits
from posttrain.compiler.memory.memory_estimate import estimate_memory
from posttrain.compiler.memory.workload import FrozenModel, LoraAdapter, RolloutWorkload, Workload

MODELS = ["Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-4B", "meta-llama/Llama-3.1-8B", "google/gemma-2-9b"]
CARDS = ["RTX4090", "A100-40", "H100"]


@st.composite
def oversized_workloads(draw):
    model = find_shape(draw(st.sampled_from(MODELS)))
    assert model is not None
    gpus = draw(st.sampled_from([1, 2, 8]))
    pairs = draw(st.booleans())
    rollout = draw(st.sampled_from([None, "transformers", "vllm"]))
    rows = 2 * draw(st.integers(1, 16))
    return Workload(
        model=model,
        length=draw(st.sampled_from([512, 2048, 8192])),
        rows=rows,
        rows_per_example=2 if pairs else 1,
        accumulation=draw(st.sampled_from([1, 4])),
        gpus=gpus,
        element=draw(st.sampled_from([2, 4])),
        strategy="single" if gpus == 1 else "ddp",
        adapter=draw(st.sampled_from([None, LoraAdapter()])),
        loss=draw(st.sampled_from(["chunked", "full"])),
        frozen=draw(st.sampled_from([(), (FrozenModel("reference", model, rows=rows),)])),
        rollout=rollout and RolloutWorkload(rollout, 256, 768, draw(st.sampled_from([8, 64, 512]))),
    )


devices = st.sampled_from(CARDS).map(find_accelerator)


@given(oversized_workloads(), devices)
def test_remedies_fit_and_are_only_given_where_they_are_needed(workload, device):
    found = suggest_fits(workload, device)
    if estimate_memory(workload, device).fits:
        assert found == ()
    for remedy in found:
        assert remedy.change
        assert remedy.estimate == estimate_memory(remedy.workload, remedy.device)
        assert remedy.estimate.fits
        assert (remedy.workload, remedy.device) != (workload, device)


@given(oversized_workloads(), devices)
def test_a_smaller_micro_batch_keeps_the_global_one_and_splits_no_pair(workload, device):
    for remedy in suggest_fits(workload, device):
        changed = remedy.workload
        assert changed.rows % changed.rows_per_example == 0
        if "global batch" not in remedy.change:
            assert changed.global_rows == workload.global_rows


@given(oversized_workloads(), devices)
def test_no_change_is_larger_than_it_must_be(workload, device):
    """With the next larger micro-batch the workload does not fit."""
    for remedy in suggest_fits(workload, device):
        if remedy.change.startswith("micro-batch"):
            together = workload.rows * workload.accumulation
            larger = range(
                remedy.workload.rows + workload.rows_per_example, workload.rows, workload.rows_per_example
            )
            for rows in (r for r in larger if together % r == 0):
                tried = replace(workload, rows=rows, accumulation=together // rows)
                assert not estimate_memory(tried, device).fits


@given(oversized_workloads(), devices)
def test_what_leaves_the_result_alone_comes_first(workload, device):
    harmless = ("gradient checkpointing", "a chunked loss", "micro-batch", "vLLM", "attention")
    order = [r.change.startswith(harmless) and "GPUs" not in r.change for r in suggest_fits(workload, device)]
    single = [h for h, r in zip(order, suggest_fits(workload, device), strict=True) if "," not in r.change]
    assert single == sorted(single, reverse=True)


@given(oversized_workloads(), devices)
def test_the_largest_fitting_micro_batch_fits(workload, device):
    found = largest_fitting_micro_batch(workload, device)
    if found is not None:
        assert estimate_memory(found, device).fits
        assert found.global_rows == workload.global_rows


def test_what_is_far_too_large_for_one_card_is_told_how_many_it_takes():
    model, device = find_shape("Qwen/Qwen2.5-72B"), find_accelerator("H100")
    assert model is not None
    assert device is not None
    changes = [r.change for r in suggest_fits(Workload(model=model, length=4096, rows=4), device)]
    assert any("32 GPUs with ZeRO stage 3" in c for c in changes)
    assert any("QLoRA" in c for c in changes)


def test_a_share_too_small_for_vllm_is_enlarged():
    model, device = find_shape("Qwen/Qwen3-4B"), find_accelerator("A100-40")
    assert model is not None
    assert device is not None
    workload = Workload(
        model=model,
        length=2048,
        rows=8,
        adapter=LoraAdapter(),
        checkpointing=True,
        rollout=RolloutWorkload("vllm", 512, 1536, 64, gpu_memory_utilization=0.1),
    )
    first = suggest_fits(workload, device)[0]
    assert first.change.startswith("vLLM gpu_memory_utilization")
    assert first.workload.rollout is not None
    assert first.workload.rollout.gpu_memory_utilization > 0.1


def test_a_model_that_no_single_change_fits_has_adapters_on_more_hardware() -> None:
    model, device = find_shape("Qwen/Qwen2.5-72B"), find_accelerator("A100-40")
    assert model is not None
    assert device is not None
    workload = Workload(model=model, length=2048, rows=1, accumulation=16, element=4)
    changes = [one.change for one in suggest_fits(workload, device)]
    assert any("a LoRA adapter" in change and "GPUs with ZeRO stage 3" in change for change in changes)
    assert any("a QLoRA adapter" in change and "instead of A100-40GB" in change for change in changes)
    assert len(changes) == len(set(changes)) >= 4
