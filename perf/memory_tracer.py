"""Traces the memory of a training step of a transformers model, without weights.

A step (forward, backward, clipping, AdamW) runs with fake tensors, which have shapes but no data. The trace
counts every storage from its allocation to its release. It measures the second step, when the optimizer
states exist.
"""

import gc
from typing import Any

import torch
from gpu_emulation import emulate_gpu
from storage_tracker import StorageTracker
from torch._subclasses.fake_tensor import FakeTensorMode

from posttrain.compiler.memory.training_memory import resident_terms, training_phases
from posttrain.compiler.memory.workload import Workload
from posttrain.spec.architectures.transformers_config import transformers_config


def trace(workload: Workload) -> int:
    """The peak of one training step in bytes."""
    with emulate_gpu(workload):
        model = model_of(workload)
        with FakeTensorMode(), StorageTracker() as tracker:
            fill(model)
            run = _step(workload, model)
            run()
            tracker.peak = tracker.now
            run()
        peak = tracker.peak
        del model, run
        gc.collect()
    return peak


def predict(workload: Workload) -> int:
    return max(m.total for m in training_phases(workload, resident_terms(workload)))


def model_of(workload: Workload) -> torch.nn.Module:
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
        return _with_lora(workload, model) if workload.adapter else model


def _with_lora(workload: Workload, model: Any) -> Any:
    import peft

    adapter = workload.adapter
    assert adapter is not None
    config = peft.LoraConfig(
        r=adapter.rank,
        target_modules=list(adapter.target_modules or workload.model.architecture.lora),
        lora_dropout=adapter.dropout,
        task_type="CAUSAL_LM",
    )
    model = peft.get_peft_model(model, config)
    for parameter in model.parameters():
        if parameter.requires_grad and adapter.element == 2:
            parameter.data = parameter.data.to(torch.bfloat16)
    return model


def fill(model: torch.nn.Module) -> None:
    """Replace tensors without a device by fake tensors; tied tensors stay tied."""
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
