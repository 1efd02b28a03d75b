"""Compares predicted with traced memory: complete training steps of transformers models, without weights.

    python perf/memory_prediction.py             trace all cases and write perf/memory_prediction.md
    python perf/memory_prediction.py Qwen3 phi   trace the cases whose name contains a word, and print them

`memory_tracer.py` traces a step; `gpu_emulation.py` emulates the code paths of a GPU.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from memory_tracer import predict, trace

from posttrain.compiler.facts.parameter_counts import linear_module_names
from posttrain.compiler.facts.published_shapes import find_shape
from posttrain.compiler.memory.workload import LoraAdapter, Workload


def case(model: str, rows: int, length: int, *, lora: str = "", **options: Any) -> Workload:
    shape = find_shape(model)
    assert shape is not None, model
    workload = Workload(model=shape, rows=rows, length=length, **options)
    if not lora:
        return workload
    targets = linear_module_names(shape) if lora == "all" else shape.architecture.lora
    return replace(workload, adapter=LoraAdapter(rank=16, target_modules=targets))


CHECKPOINTING = {"checkpointing": True}
FLOAT32 = {"element": 4}
CASES = (
    case("HuggingFaceTB/SmolLM2-135M", 8, 2048),
    case("HuggingFaceTB/SmolLM2-360M", 8, 1024, element=4, autocast=False),
    case("HuggingFaceTB/SmolLM2-1.7B", 4, 2048, **CHECKPOINTING, **FLOAT32),
    case("HuggingFaceTB/SmolLM3-3B", 2, 4096, **CHECKPOINTING, accumulation=4),
    case("Qwen/Qwen2.5-0.5B", 8, 1024, **FLOAT32),
    case("Qwen/Qwen2.5-0.5B", 4, 2048, **CHECKPOINTING, loss="full"),
    case("Qwen/Qwen2.5-0.5B", 8, 1024, **CHECKPOINTING, loss="scores"),
    case("Qwen/Qwen2.5-0.5B", 8, 512, packed=True),
    case("Qwen/Qwen2.5-7B", 2, 4096, **CHECKPOINTING, lora="all"),
    case("Qwen/Qwen3-0.6B", 4, 1024, accumulation=4),
    case("Qwen/Qwen3-4B", 4, 2048, **CHECKPOINTING, lora="attention"),
    case("Qwen/Qwen3-8B", 1, 8192, **CHECKPOINTING),
    case("Qwen/Qwen3-30B-A3B", 1, 4096, **CHECKPOINTING, lora="attention"),
    case("Qwen/Qwen3.5-4B", 1, 2048, **CHECKPOINTING, lora="attention"),
    case("meta-llama/Llama-3.2-1B", 2, 4096),
    case("meta-llama/Llama-3.2-1B", 2, 2048, attention="eager", lora="attention"),
    case("meta-llama/Llama-3.2-3B", 2, 2048, lora="all"),
    case("meta-llama/Llama-3.1-8B", 1, 4096, lora="all"),
    case("meta-llama/Llama-3.1-8B", 4, 2048, **CHECKPOINTING),
    case("meta-llama/Llama-3.1-8B", 2, 2048, **CHECKPOINTING, **FLOAT32),
    case("mistralai/Mistral-7B-v0.3", 4, 2048, lora="attention", padded=True),
    case("mistralai/Ministral-8B-Instruct-2410", 1, 4096, **CHECKPOINTING, lora="all"),
    case("mistralai/Mixtral-8x7B-v0.1", 1, 2048, **CHECKPOINTING, lora="attention"),
    case("google/gemma-2-2b", 2, 2048, **CHECKPOINTING, loss="full"),
    case("google/gemma-3-1b-pt", 4, 2048),
    case("google/gemma-3-4b-pt", 2, 2048, **CHECKPOINTING, lora="all"),
    case("allenai/OLMo-2-0425-1B", 4, 2048),
    case("allenai/Olmo-3-1025-7B", 1, 4096, **CHECKPOINTING, lora="all"),
    case("microsoft/Phi-4-mini-instruct", 2, 2048, lora="all"),
    case("microsoft/phi-4", 1, 4096, **CHECKPOINTING, lora="attention"),
    case("openai-community/gpt2-medium", 8, 1024, **FLOAT32),
    case("EleutherAI/pythia-1.4b", 4, 2048, **CHECKPOINTING),
    case("EleutherAI/pythia-410m", 4, 1024, lora="attention"),
    case("bigscience/bloom-560m", 4, 1024),
    case("tiiuae/falcon-7b", 1, 2048, **CHECKPOINTING, lora="attention"),
)
HEADER = (
    "| model | rows x length | trains | weights | checkpointing | loss | options "
    "| traced GiB | predicted GiB | predicted / traced |\n"
    "|---|---|---|---|---|---|---|---|---|---|\n"
)


def row(workload: Workload, traced: int, predicted: int) -> str:
    adapter, shape = workload.adapter, workload.model
    everywhere = adapter and adapter.target_modules != shape.architecture.lora
    learns = ("LoRA, all linear" if everywhere else "LoRA, attention") if adapter else "all weights"
    formats = "bf16" if workload.element == 2 else "fp32, bf16 autocast" if workload.autocast else "fp32"
    special = [w for w in ("padded", "packed") if getattr(workload, w)]
    special += [f"accumulation {workload.accumulation}"] if workload.accumulation > 1 else []
    special += ["eager attention"] if workload.attention == "eager" else []
    cells = (
        shape.name,
        f"{workload.rows} x {workload.length}",
        learns,
        formats,
        "yes" if workload.checkpointing else "no",
        workload.loss,
        ", ".join(special),
        f"{traced / 2**30:.2f}",
        f"{predicted / 2**30:.2f}",
        f"{predicted / traced:.3f}",
    )
    return f"| {' | '.join(cells)} |\n"


def main(words: list[str]) -> None:
    chosen = [c for c in CASES if not words or any(w.lower() in c.model.name.lower() for w in words)]
    rows, ratios = [], []
    for workload in chosen:
        start = time.process_time()
        traced, predicted = trace(workload), predict(workload)
        rows.append(row(workload, traced, predicted))
        ratios.append(predicted / traced)
        print(rows[-1].strip(), f"{time.process_time() - start:.0f} s", flush=True)
    within = sum(abs(r - 1) <= 0.1 for r in ratios)
    mean = sum(abs(r - 1) for r in ratios) / len(ratios)
    summary = (
        f"{within} of {len(ratios)} within 10 %; the ratio is between {min(ratios):.3f} and "
        f"{max(ratios):.3f}, the mean error {mean:.1%}.\n"
    )
    print(summary)
    if not words:
        text = f"# Predicted and traced memory of a training step\n\n{INTRODUCTION}\n{summary}\n{HEADER}"
        Path(__file__).with_suffix(".md").write_text(text + "".join(rows), encoding="utf-8")


INTRODUCTION = """\
Generated by `python perf/memory_prediction.py`. Traced: the transformers model runs a step (forward,
backward, clipping, fused AdamW) with fake tensors; the trace counts all storages and reports the peak of the
second step. Predicted: the closed form of `posttrain.compiler.memory`, from the shape of the model. Both
count tensors only, without the CUDA context, the allocator's slack and workspaces inside kernels.
"""

if __name__ == "__main__":
    main(sys.argv[1:])
