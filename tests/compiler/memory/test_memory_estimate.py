"""Tests properties of every workload: more work never needs less memory, more shards never need more."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from posttrain.compiler.facts.accelerators import find_accelerator
from posttrain.compiler.facts.parameter_counts import count_parameters, linear_module_names
from posttrain.compiler.facts.published_shapes import find_shape
from posttrain.compiler.memory import model_states
from posttrain.compiler.memory.memory_estimate import estimate_memory, format_terms
from posttrain.compiler.memory.workload import FrozenModel, LoraAdapter, RolloutWorkload, Workload

H100 = find_accelerator("H100")
MODELS = [
    "HuggingFaceTB/SmolLM2-135M",
    "Qwen/Qwen2.5-0.5B",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3.5-4B",
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-4-Scout-17B-16E",
    "mistralai/Mistral-7B-v0.1",
    "google/gemma-2-2b",
    "google/gemma-3-4b-pt",
    "allenai/Olmo-3-1025-7B",
    "microsoft/phi-4",
    "openai-community/gpt2",
    "EleutherAI/pythia-410m",
    "bigscience/bloom-560m",
    "tiiuae/falcon-7b",
    "tiiuae/falcon-rw-1b",
]


@st.composite
def workloads(draw, sharded=None):
    model = find_shape(draw(st.sampled_from(MODELS)))
    assert model is not None
    adapter = draw(st.sampled_from(["none", "attention", "all"]))
    targets = linear_module_names(model) if adapter == "all" else ()
    strategy = draw(st.sampled_from(sharded or ["single", "ddp", "zero1", "zero2", "zero3", "fsdp"]))
    rollout = draw(st.sampled_from([None, "transformers", "vllm"]))
    return Workload(
        model=model,
        length=draw(st.integers(1, 64)) * 128,
        rows=draw(st.integers(1, 16)),
        accumulation=draw(st.sampled_from([1, 2, 8])),
        gpus=1 if strategy == "single" else draw(st.sampled_from([2, 4, 8])),
        element=draw(st.sampled_from([2, 4])),
        autocast=draw(st.booleans()),
        strategy=strategy,
        adapter=None
        if adapter == "none"
        else LoraAdapter(target_modules=targets, element=draw(st.sampled_from([2, 4]))),
        checkpointing=draw(st.booleans()),
        attention=draw(st.sampled_from(["sdpa", "flash", "eager"])),
        padded=draw(st.booleans()),
        loss=draw(st.sampled_from(["chunked", "full", "scores"])),
        frozen=draw(st.sampled_from([(), (FrozenModel("reference", model),)])),
        value_model=draw(st.sampled_from([None, model])),
        rollout=rollout and RolloutWorkload(rollout, 256, 512, draw(st.integers(1, 64))),
    )


def total_bytes(workload):
    return estimate_memory(workload, H100).total


@given(workloads())
def test_terms_add_up_to_the_total_of_the_largest_moment(workload):
    result = estimate_memory(workload, H100)
    assert result.total == sum(t.bytes for t in result.terms)
    assert result.total == max(m.total for m in result.phases)
    assert result.headroom == H100.memory - result.total
    assert result.fits == (result.headroom >= 0 and result.start_error is None)
    assert all(t.bytes > 0 and t.why for m in result.phases for t in m.terms)
    assert len(format_terms(result)) == len(result.terms)


@given(workloads())
def test_more_rows_never_take_less(workload):
    assert total_bytes(replace(workload, rows=workload.rows + 1)) >= total_bytes(workload)


@given(workloads())
def test_longer_rows_never_take_less(workload):
    assert total_bytes(replace(workload, length=workload.length + 128)) >= total_bytes(workload)


@given(workloads())
def test_accumulating_never_takes_less(workload):
    assert total_bytes(replace(workload, accumulation=workload.accumulation * 2)) >= total_bytes(workload)


@given(workloads())
def test_wider_weights_take_more_of_what_is_held_throughout(workload):
    """Only resident memory grows: an fp32 norm saves a wide copy of a bf16 stream but not of an fp32
    stream, which can outweigh the weights of a small model with long rows."""
    assume(workload.autocast)
    wide, narrow = resident_bytes(replace(workload, element=4)), resident_bytes(replace(workload, element=2))
    assert narrow["weights"] > 0
    assert wide["weights"] >= narrow["weights"]
    assert sum(wide.values()) >= sum(narrow.values())


def resident_bytes(workload):
    """Return the terms of all phases by name."""
    terms = estimate_memory(workload, H100).terms
    return {
        name: sum(t.bytes for t in terms if t.name == name) for name in ("weights", "optimizer", "adapter")
    }


@given(workloads(sharded=["zero1", "zero2", "zero3", "fsdp"]))
def test_more_shards_never_take_more_on_each(workload):
    assert total_bytes(replace(workload, gpus=workload.gpus * 2)) <= total_bytes(workload)


@given(workloads(sharded=["zero1", "zero2"]))
def test_a_higher_stage_never_holds_more_states(workload):
    names = ("weights", "gradients", "optimizer", "master weights")

    def states(one):
        last = next(m for m in estimate_memory(one, H100).phases if m.name == "optimizer step")
        return sum(t.bytes for t in last.terms if t.name in names)

    higher = "zero2" if workload.strategy == "zero1" else "zero3"
    assert states(replace(workload, strategy=higher)) <= states(workload)


@given(workloads(sharded=["zero3"]))
def test_the_gradient_partition_of_zero3_is_always_allocated(workload):
    """DeepSpeed allocates it with the optimizer: it is in every phase once, whatever the accumulation."""
    for accumulation in (1, 4):
        changed = replace(workload, accumulation=accumulation)
        expected = round(model_states.gradient_bytes(changed, changed.model))
        for phase in estimate_memory(changed, H100).phases:
            assert sum(t.bytes for t in phase.terms if t.name == "gradients") == expected


@given(workloads())
def test_checkpointing_never_takes_more_in_long_rows(workload):
    long = replace(workload, length=4096)
    assert total_bytes(replace(long, checkpointing=True)) <= total_bytes(replace(long, checkpointing=False))


@given(workloads())
def test_an_adapter_never_takes_more_than_learning_everything(workload):
    full = replace(workload, adapter=None)
    assert total_bytes(replace(workload, adapter=LoraAdapter(element=2))) <= total_bytes(full)


@given(workloads(sharded=["single"]))
def test_four_bits_never_hold_more_than_sixteen(workload):
    def weights(adapter):
        terms = estimate_memory(replace(workload, adapter=adapter, element=2), H100).terms
        return sum(t.bytes for t in terms if t.name == "weights")

    nested = weights(LoraAdapter(quantized=True, double_quant=True))
    assert nested <= weights(LoraAdapter(quantized=True)) <= weights(LoraAdapter())


@given(workloads())
def test_a_frozen_model_costs_its_weights(workload):
    alone = replace(workload, frozen=())
    with_reference = replace(workload, frozen=(FrozenModel("reference", workload.model),))
    assert total_bytes(with_reference) >= total_bytes(alone) + 2 * count_parameters(workload.model)


@pytest.mark.parametrize("gpu_memory_utilization", [0.3, 0.5, 0.9])
def test_vllm_fills_its_share(gpu_memory_utilization):
    model = find_shape("Qwen/Qwen2.5-0.5B")
    assert model is not None
    rollout = RolloutWorkload(
        "vllm", 256, 256, 32, gpu_memory_utilization=gpu_memory_utilization, cuda_graphs=False
    )
    result = estimate_memory(Workload(model=model, length=512, rows=1, train=False, rollout=rollout), H100)
    share = sum(t.bytes for t in result.terms if t.name.startswith("vLLM"))
    assert share == pytest.approx(gpu_memory_utilization * H100.memory, rel=1e-6)
    assert result.fits


def test_vllm_refuses_a_share_smaller_than_the_weights():
    model = find_shape("Qwen/Qwen3-8B")
    assert model is not None
    rollout = RolloutWorkload("vllm", 256, 256, 32, gpu_memory_utilization=0.1)
    workload = Workload(model=model, length=512, train=False, rollout=rollout)
    result = estimate_memory(workload, H100)
    assert not result.fits
    assert "0.10" in str(result.start_error)


def test_a_sleeping_engine_makes_room_for_training():
    model = find_shape("Qwen/Qwen3-4B")
    assert model is not None
    awake = Workload(
        model=model,
        length=2048,
        rows=8,
        adapter=LoraAdapter(),
        checkpointing=True,
        rollout=RolloutWorkload("vllm", 512, 1536, 64, gpu_memory_utilization=0.5),
    )
    asleep = replace(
        awake,
        rollout=RolloutWorkload("vllm", 512, 1536, 64, gpu_memory_utilization=0.5, enable_sleep_mode=True),
    )
    training = {m.name: m.total for m in estimate_memory(awake, H100).phases}
    sleeping = {m.name: m.total for m in estimate_memory(asleep, H100).phases}
    assert sleeping["generation"] == training["generation"]
    assert sleeping["loss, backward"] < training["loss, backward"] - 0.4 * H100.memory


def test_the_processes_of_a_machine_without_accelerator_share_its_memory():
    model, cpu = find_shape("HuggingFaceTB/SmolLM2-135M"), find_accelerator("cpu")
    assert model is not None
    assert cpu is not None
    workload = Workload(model=model, length=256, gpus=2, strategy="ddp")
    assert estimate_memory(workload, cpu).limit == cpu.memory // 2
