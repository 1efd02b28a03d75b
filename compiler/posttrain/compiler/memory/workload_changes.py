"""The changes that can make a workload fit. Each function yields its changes, the smallest first."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.memory.generation_memory import min_gpu_memory_utilization
from posttrain.compiler.memory.workload import LoraAdapter, RolloutWorkload, Workload

WorkloadChange = Callable[[Workload, Device], Iterator[tuple[str, Workload]]]
MAX_GPUS = 64


def _checkpointing(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    if workload.train and not workload.checkpointing:
        yield "gradient checkpointing", replace(workload, checkpointing=True)


def _chunked_loss(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    if workload.loss == "full":
        yield "a chunked loss", replace(workload, loss="chunked")


def _fused_attention(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    if workload.attention == "eager":
        yield "attention: sdpa", replace(workload, attention="sdpa")


def smaller_micro_batches(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    """Yield smaller micro-batches with more gradient accumulation."""
    together = workload.rows * workload.accumulation
    for rows in range(workload.rows - workload.rows_per_example, 0, -workload.rows_per_example):
        if together % rows == 0:
            frozen = tuple(replace(f, rows=min(f.rows, rows)) for f in workload.frozen)
            changed = replace(workload, rows=rows, accumulation=together // rows, frozen=frozen)
            if changed.micro_batch_size not in workload.refused_micro_batches:
                yield f"micro-batch {changed.micro_batch_size}, accumulation {changed.accumulation}", changed


def _sleep_mode(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    rollout = workload.rollout
    if rollout and rollout.engine == "vllm" and rollout.colocated and not rollout.enable_sleep_mode:
        changed = replace(rollout, enable_sleep_mode=True)
        yield "vLLM sleep mode", replace(workload, rollout=changed)


def _gpu_memory_utilization(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    """Yield other shares of the GPU for vLLM: for all sequences at once, or for a part of them."""
    rollout = workload.rollout
    if rollout is None or rollout.engine != "vllm":
        return
    sequences = rollout.sequences
    while sequences >= 1:
        share = -int(-100 * min_gpu_memory_utilization(workload, device, sequences) // 1) / 100
        if share != rollout.gpu_memory_utilization and share <= 0.95:
            changed = replace(rollout, gpu_memory_utilization=share)
            yield f"vLLM gpu_memory_utilization {share:.2f}", replace(workload, rollout=changed)
        sequences //= 2


def _fewer_sequences(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    rollout = workload.rollout
    if rollout is None or rollout.engine != "transformers":
        return
    for fewer in _halve_sequences(rollout):
        yield f"{fewer.sequences} completions at a time", replace(workload, rollout=fewer)


def _fewer_eval_sequences(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    for fewer in _halve_sequences(workload.evaluation) if workload.evaluation else ():
        yield (
            f"{fewer.sequences} evaluation completions at a time",
            replace(workload, evaluation=fewer),
        )


def _halve_sequences(rollout: RolloutWorkload) -> Iterator[RolloutWorkload]:
    sequences = rollout.sequences // 2
    while sequences >= 1:
        yield replace(rollout, sequences=sequences)
        sequences //= 2


def _sharding(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    """Yield the higher ZeRO stages on the same GPUs."""
    ladder = ("single", "ddp", "zero1", "zero2", "zero3")
    if not workload.train or workload.gpus == 1 or workload.strategy not in ladder:
        return
    for strategy in ("zero1", "zero2", "zero3"):
        if ladder.index(strategy) > ladder.index(workload.strategy) and _can_shard(workload):
            frozen = tuple(replace(f, sharded=strategy == "zero3") for f in workload.frozen)
            changed = replace(workload, strategy=strategy, frozen=frozen)
            yield f"ZeRO stage {strategy[-1]}", changed


def _can_shard(workload: Workload) -> bool:
    """Return whether sharding helps. ZeRO-3 cannot shard 4-bit weights, and the other stages do not reduce
    them."""
    return workload.adapter is None or not workload.adapter.quantized


def more_gpus(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    """Yield two, four, eight times as many GPUs, with the states sharded over all of them."""
    gpus = workload.gpus * 2
    while workload.train and _can_shard(workload) and gpus <= MAX_GPUS:
        strategy = workload.strategy if workload.strategy in ("zero3", "fsdp") else "zero3"
        frozen = tuple(replace(f, sharded=True) for f in workload.frozen)
        rows, accumulation = _divide_global_batch(workload, gpus)
        changed = replace(workload, gpus=gpus, strategy=strategy, frozen=frozen)
        changed = replace(changed, rows=rows, accumulation=accumulation)
        how = "" if strategy == workload.strategy else " with ZeRO stage 3"
        if changed.global_rows != workload.global_rows:
            how += f", global batch {changed.global_rows // changed.rows_per_example}"
        if changed.micro_batch_size not in workload.refused_micro_batches:
            yield f"{gpus} GPUs{how}", changed
        gpus *= 2


def _divide_global_batch(workload: Workload, gpus: int) -> tuple[int, int]:
    """Return micro-batch and accumulation with the same global batch. If the global batch is too small or
    does not divide, return the smallest batch for this number of GPUs."""
    each, rest = divmod(workload.global_rows, gpus)
    sizes = range(min(workload.rows, each), 0, -1)
    rows = next((r for r in sizes if each % r == 0 and r % workload.rows_per_example == 0), 0)
    return (workload.rows_per_example, 1) if rest or not rows else (rows, each // rows)


def _bf16_autocast(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    if workload.element == 4 and not workload.autocast and device.kind == "gpu":
        yield "precision: bfloat16", replace(workload, autocast=True)


def _optimizer_8bit(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    if workload.train and workload.optimizer == "adamw" and workload.strategy in ("single", "ddp"):
        yield "8-bit AdamW", replace(workload, optimizer="adamw_8bit")


def _bf16_weights(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    if workload.element == 4 and workload.strategy in ("single", "ddp") and device.kind == "gpu":
        yield "weights in bf16", replace(workload, element=2)


def _lora(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    """Yield a LoRA adapter. Its base model is the reference, which then needs no copy."""
    if workload.train and workload.adapter is None:
        frozen = tuple(f for f in workload.frozen if f.role != "reference")
        yield (
            "a LoRA adapter",
            replace(workload, adapter=LoraAdapter(), trained_parameters=None, frozen=frozen, element=2),
        )


def _qlora(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    single = workload.strategy in ("single", "ddp")
    quantized = workload.adapter is not None and workload.adapter.quantized
    if workload.train and not quantized and single and device.kind == "gpu":
        adapter = replace(workload.adapter or LoraAdapter(), quantized=True, element=2)
        frozen = tuple(f for f in workload.frozen if f.role != "reference")
        trained = workload.trained_parameters if workload.adapter is not None else None
        changed = replace(workload, adapter=adapter, trained_parameters=trained, frozen=frozen, element=2)
        yield "a QLoRA adapter (4-bit base)", changed


def _shorter_sequences(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    if workload.rollout is not None:
        return  # the rollout sets the length: a shorter one would truncate completions
    for length in range((workload.length - 1) // 256 * 256, workload.length // 4, -256):
        yield f"length {length}", replace(workload, length=length)


RESULT_PRESERVING_CHANGES: tuple[WorkloadChange, ...] = (
    _checkpointing,
    _chunked_loss,
    _fused_attention,
    smaller_micro_batches,
    _sleep_mode,
    _gpu_memory_utilization,
    _fewer_sequences,
    _fewer_eval_sequences,
)
COSTLY_CHANGES: tuple[WorkloadChange, ...] = (
    _sharding,
    more_gpus,
    _bf16_autocast,
    _bf16_weights,
    _optimizer_8bit,
    _lora,
    _qlora,
    _shorter_sequences,
)
ADAPTER_CHANGES: tuple[WorkloadChange, ...] = (_lora, _qlora)
