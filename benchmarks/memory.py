"""Predicted against traced memory: whole training steps of real transformers models, without weights.

A step (forward, backward, clipping, AdamW) runs under fake tensors, which have shapes and no
contents, and every storage is counted from its birth to its death. The second step is measured, when
the optimizer has its states. What a CPU would do otherwise than a GPU is set right first: the
attention kernels, autocast's list of fp32 operations, dropout's masks, TRL's fused tiles.

    python benchmarks/memory.py             trace all cases and write benchmarks/memory.md
    python benchmarks/memory.py Qwen3 phi   trace the cases that these words occur in, and print
"""

import contextlib
import gc
import sys
import time
import warnings
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from posttrain.compiler.facts.configs import transformers_config
from posttrain.compiler.facts.parameters import linear_names
from posttrain.compiler.facts.shapes import known
from posttrain.compiler.memory.training import training_moments
from posttrain.compiler.memory.workload import Adapter, Workload

aten = torch.ops.aten


class Tracker(TorchDispatchMode):
    """Bytes of all storages that are alive, and the most that there ever were."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        self.now = 0
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._born(leaf.untyped_storage())
        return result

    def _born(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self.alive:
            return
        self.alive[key] = storage.nbytes()
        weakref.finalize(storage, self._died, key)
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)

    def _died(self, key: int) -> None:
        self.now -= self.alive.pop(key, 0)


def trace(workload: Workload) -> int:
    """The peak of one training step in bytes."""
    with _as_on_a_gpu(workload):
        model = _model(workload)
        with FakeTensorMode(), Tracker() as tracker:
            _fill(model)
            run = _step(workload, model)
            run()
            tracker.peak = tracker.now
            run()
        peak = tracker.peak
        del model, run
        gc.collect()
    return peak


def predict(workload: Workload) -> int:
    return max(m.total for m in training_moments(workload))


def _model(workload: Workload) -> torch.nn.Module:
    import transformers

    scores = workload.loss == "scores"
    kind = "AutoModelForSequenceClassification" if scores else "AutoModelForCausalLM"
    config = transformers.AutoConfig.for_model(**transformers_config(workload.model))
    if scores:
        config.num_labels, config.pad_token_id = 1, 0
    config.use_cache = False
    dtype = {2: torch.bfloat16, 4: torch.float32}[workload.element]
    own = workload.model.architecture.attention == "alibi"
    attention = "eager" if own else workload.attention
    with torch.device("meta"):
        model = getattr(transformers, kind).from_config(config, dtype=dtype, attn_implementation=attention)
        model.train()
        return _adapted(workload, model) if workload.adapter else model


def _adapted(workload: Workload, model: Any) -> Any:
    import peft

    adapter = workload.adapter
    assert adapter is not None
    config = peft.LoraConfig(
        r=adapter.rank,
        target_modules=list(adapter.targets or workload.model.architecture.lora),
        lora_dropout=adapter.dropout,
        task_type="CAUSAL_LM",
    )
    model = peft.get_peft_model(model, config)
    for parameter in model.parameters():
        if parameter.requires_grad and adapter.element == 2:
            parameter.data = parameter.data.to(torch.bfloat16)
    return model


def _fill(model: torch.nn.Module) -> None:
    """Fake tensors in the place of those without a device; tied ones stay tied."""
    made: dict[int, tuple[Any, Any]] = {}

    def fake(tensor: Any) -> Any:
        if id(tensor) not in made:
            empty = torch.empty(tensor.shape, dtype=tensor.dtype)
            if isinstance(tensor, torch.nn.Parameter):
                empty = torch.nn.Parameter(empty, requires_grad=tensor.requires_grad)
            made[id(tensor)] = (tensor, empty)
        return made[id(tensor)][1]

    for module in model.modules():
        for held in (module._parameters, module._buffers, vars(module)):
            for name, tensor in list(held.items()):
                if isinstance(tensor, torch.Tensor):
                    held[name] = fake(tensor)


def _step(workload: Workload, model: Any) -> Any:
    from trl.trainer.utils import add_fused_lm_head

    if workload.checkpointing:
        model.gradient_checkpointing_enable({"preserve_rng_state": False, "use_reentrant": False})
        if workload.adapter:
            model.enable_input_require_grads()
    if workload.loss == "chunked":
        plain = model.get_base_model() if workload.adapter else model
        add_fused_lm_head(plain, outputs=("log_probs", "entropy", "is_top1"))
    learning = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learning, fused=True)
    batch = _batch(workload)

    def run() -> None:
        for _ in range(workload.accumulation):
            with torch.autocast("cpu", torch.bfloat16, enabled=workload.autocast):
                loss = _loss(workload, model, batch)
            loss.backward()
            del loss
        torch.nn.utils.clip_grad_norm_(learning, 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return run


def _batch(workload: Workload) -> dict[str, Any]:
    rows, length = (1, workload.tokens) if workload.packed else (workload.rows, workload.length)
    batch: dict[str, Any] = {"input_ids": torch.zeros(rows, length, dtype=torch.long)}
    if workload.padded:
        batch["attention_mask"] = torch.ones(rows, length, dtype=torch.long)
    if workload.packed:
        batch["position_ids"] = torch.zeros(rows, length, dtype=torch.long)
    return batch


def _loss(workload: Workload, model: Any, batch: dict[str, Any]) -> Any:
    if workload.loss == "scores":
        return model(**batch).logits.float().mean()
    if workload.loss == "full":
        return model(**batch, labels=batch["input_ids"]).loss
    return model(**batch, labels=batch["input_ids"], fused_lm_head=True).loss


@contextlib.contextmanager
def _as_on_a_gpu(workload: Workload) -> Iterator[None]:
    """What torch, transformers and TRL do on a GPU, where a CPU (or no data) takes another way."""
    import transformers.masking_utils as masks
    import trl.kernels.chunked_logprob as tiles
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as ATTENTION

    functional, power = torch.nn.functional, torch.pow
    normalise = functional.layer_norm

    def widened(tensor: Any) -> Any:
        casts = torch.is_autocast_enabled("cpu") and isinstance(tensor, torch.Tensor)
        return tensor.float() if casts else tensor

    def layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
        return normalise(widened(x), shape, widened(weight), widened(bias), eps)

    def dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return torch.native_dropout(x, p, True)[0] if training and p else x

    def joined(positions: Any) -> Any:
        return torch.zeros_like(positions) if workload.packed else None

    with contextlib.ExitStack() as stack:
        for owner, name, value in (
            (functional, "layer_norm", layer_norm),
            (functional, "dropout", dropout),
            (functional, "scaled_dot_product_attention", _attention),
            (torch, "pow", lambda x, exponent: power(widened(x), exponent)),
            (tiles, "_use_triton", lambda device: False),
            # the fused kernels work in place: they allocate nothing
            (tiles, "_forward_tile", lambda *args, **kwargs: None),
            (tiles, "_backward_tile", lambda *args, **kwargs: None),
            (tiles, "_addmm_fp32", lambda *args: None),
            # fake tensors have no contents to ask whether a mask is needed
            (masks, "is_tracing", lambda *args: False),
            (masks, "fast_all", lambda mask: not workload.padded),
            (masks, "find_packed_sequence_indices", joined),
        ):
            stack.enter_context(patch.object(owner, name, value))
        stack.enter_context(patch.dict(ATTENTION._global_mapping, {"sdpa": _sdpa}))
        stack.enter_context(warnings.catch_warnings(action="ignore"))
        yield


def _sdpa(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any) -> Any:
    """transformers' own function around SDPA, which repeats shared heads where there is a mask."""
    from transformers.integrations.sdpa_attention import repeat_kv, use_gqa_in_sdpa

    groups = getattr(module, "num_key_value_groups", 1)
    if groups > 1 and not use_gqa_in_sdpa(attention_mask, key, value):
        key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    scale, p = options.get("scaling"), options.get("dropout", 0.0)
    causal = attention_mask is None
    out = _attention(query, key, value, attention_mask, p, causal, scale=scale, enable_gqa=groups > 1)
    return out.transpose(1, 2).contiguous(), None


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """The kernel that SDPA picks on CUDA: flash without a mask, memory-efficient with one, and
    neither for fp32 or unequal numbers of heads."""
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (t.to(torch.bfloat16) for t in (query, key, value))
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(torch.bfloat16)
    with torch.autocast("cpu", enabled=False):
        if query.shape[1] != key.shape[1] and (not enable_gqa or query.dtype == torch.float32):
            return aten._scaled_dot_product_attention_math(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )[0]
        if attn_mask is None:
            return aten._scaled_dot_product_flash_attention(
                query, key, value, dropout_p, is_causal, False, scale=scale
            )[0]
        if attn_mask.dtype == torch.bool:
            open_mask = torch.zeros_like(attn_mask, dtype=query.dtype)
            attn_mask = open_mask.masked_fill_(attn_mask.logical_not(), float("-inf"))
        bias = attn_mask.expand(*query.shape[:3], key.shape[2])
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, bias, True, dropout_p, False, scale=scale
        )[0]


def case(model: str, rows: int, length: int, *, lora: str = "", **options: Any) -> Workload:
    shape = known(model)
    assert shape is not None, model
    workload = Workload(model=shape, rows=rows, length=length, **options)
    if not lora:
        return workload
    targets = linear_names(shape) if lora == "all" else shape.architecture.lora
    return replace(workload, adapter=Adapter(rank=16, targets=targets))


ON = {"checkpointing": True}
WIDE = {"element": 4}
CASES = (
    case("HuggingFaceTB/SmolLM2-135M", 8, 2048),
    case("HuggingFaceTB/SmolLM2-360M", 8, 1024, element=4, autocast=False),
    case("HuggingFaceTB/SmolLM2-1.7B", 4, 2048, **ON, **WIDE),
    case("HuggingFaceTB/SmolLM3-3B", 2, 4096, **ON, accumulation=4),
    case("Qwen/Qwen2.5-0.5B", 8, 1024, **WIDE),
    case("Qwen/Qwen2.5-0.5B", 4, 2048, **ON, loss="full"),
    case("Qwen/Qwen2.5-0.5B", 8, 1024, **ON, loss="scores"),
    case("Qwen/Qwen2.5-0.5B", 8, 512, packed=True),
    case("Qwen/Qwen2.5-7B", 2, 4096, **ON, lora="all"),
    case("Qwen/Qwen3-0.6B", 4, 1024, accumulation=4),
    case("Qwen/Qwen3-4B", 4, 2048, **ON, lora="attention"),
    case("Qwen/Qwen3-8B", 1, 8192, **ON),
    case("Qwen/Qwen3-30B-A3B", 1, 4096, **ON, lora="attention"),
    case("Qwen/Qwen3.5-4B", 1, 2048, **ON, lora="attention"),
    case("meta-llama/Llama-3.2-1B", 2, 4096),
    case("meta-llama/Llama-3.2-1B", 2, 2048, attention="eager", lora="attention"),
    case("meta-llama/Llama-3.2-3B", 2, 2048, lora="all"),
    case("meta-llama/Llama-3.1-8B", 1, 4096, lora="all"),
    case("meta-llama/Llama-3.1-8B", 4, 2048, **ON),
    case("meta-llama/Llama-3.1-8B", 2, 2048, **ON, **WIDE),
    case("mistralai/Mistral-7B-v0.3", 4, 2048, lora="attention", padded=True),
    case("mistralai/Ministral-8B-Instruct-2410", 1, 4096, **ON, lora="all"),
    case("mistralai/Mixtral-8x7B-v0.1", 1, 2048, **ON, lora="attention"),
    case("google/gemma-2-2b", 2, 2048, **ON, loss="full"),
    case("google/gemma-3-1b-pt", 4, 2048),
    case("google/gemma-3-4b-pt", 2, 2048, **ON, lora="all"),
    case("allenai/OLMo-2-0425-1B", 4, 2048),
    case("allenai/Olmo-3-1025-7B", 1, 4096, **ON, lora="all"),
    case("microsoft/Phi-4-mini-instruct", 2, 2048, lora="all"),
    case("microsoft/phi-4", 1, 4096, **ON, lora="attention"),
    case("openai-community/gpt2-medium", 8, 1024, **WIDE),
    case("EleutherAI/pythia-1.4b", 4, 2048, **ON),
    case("EleutherAI/pythia-410m", 4, 1024, lora="attention"),
    case("bigscience/bloom-560m", 4, 1024),
    case("tiiuae/falcon-7b", 1, 2048, **ON, lora="attention"),
)
HEADER = (
    "| model | rows x length | learns | weights | recomputed | loss | special "
    "| traced GiB | predicted GiB | predicted / traced |\n"
    "|---|---|---|---|---|---|---|---|---|---|\n"
)


def row(workload: Workload, traced: int, predicted: int) -> str:
    adapter, shape = workload.adapter, workload.model
    everywhere = adapter and adapter.targets != shape.architecture.lora
    learns = ("LoRA, all linear" if everywhere else "LoRA, attention") if adapter else "everything"
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
        f"{within} of {len(ratios)} within 10 %; the ratio runs from {min(ratios):.3f} to "
        f"{max(ratios):.3f}, and is off by {mean:.1%} on average.\n"
    )
    print(summary)
    if not words:
        text = f"# Memory of a training step, predicted and traced\n\n{INTRODUCTION}\n{summary}\n{HEADER}"
        Path(__file__).with_suffix(".md").write_text(text + "".join(rows), encoding="utf-8")


INTRODUCTION = """\
Written by `python benchmarks/memory.py`. Traced: transformers' own model runs a step (forward, backward,
clipping, fused AdamW) under fake tensors, and all storages are counted; the second step's peak is shown.
Predicted: the closed form of `posttrain.compiler.memory`, from the shape alone. Both count tensors: what
a process has besides (CUDA context, the allocator's slack, workspaces inside kernels) is in neither.
"""

if __name__ == "__main__":
    main(sys.argv[1:])
