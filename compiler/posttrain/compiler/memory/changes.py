"""What can be changed of a workload that does not fit: each kind gives its changes, the smallest first."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.memory.generation import smallest_share
from posttrain.compiler.memory.workload import Adapter, Rollout, Workload

Kind = Callable[[Workload, Device], Iterator[tuple[str, Workload]]]
LARGEST_CLUSTER = 64


def _checkpointing(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    if workload.train and not workload.checkpointing:
        yield "gradient checkpointing", replace(workload, checkpointing=True)


def _chunked_loss(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    if workload.loss == "full":
        yield "a chunked loss", replace(workload, loss="chunked")


def _fused_attention(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    if workload.attention == "eager":
        yield "attention: sdpa", replace(workload, attention="sdpa")


def smaller_batches(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    """Fewer rows at once, and as many times more often."""
    together = workload.rows * workload.accumulation
    for rows in range(workload.rows - workload.unit, 0, -workload.unit):
        if together % rows == 0:
            frozen = tuple(replace(f, rows=min(f.rows, rows)) for f in workload.frozen)
            changed = replace(workload, rows=rows, accumulation=together // rows, frozen=frozen)
            if changed.micro not in workload.refused:
                yield f"micro-batch {changed.micro}, accumulation {changed.accumulation}", changed


def _sleeping(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    rollout = workload.rollout
    if rollout and rollout.engine == "vllm" and rollout.colocated and not rollout.sleeps:
        changed = replace(rollout, sleeps=True)
        yield "vLLM asleep while training", replace(workload, rollout=changed)


def _share(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    """Another share of the card for vLLM: what all sequences need at once, or a part of them."""
    rollout = workload.rollout
    if rollout is None or rollout.engine != "vllm":
        return
    sequences = rollout.sequences
    while sequences >= 1:
        share = -int(-100 * smallest_share(workload, device, sequences) // 1) / 100
        if share != rollout.utilisation and share <= 0.95:
            changed = replace(rollout, utilisation=share)
            yield f"vLLM utilisation {share:.2f}", replace(workload, rollout=changed)
        sequences //= 2


def _fewer_sequences(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    rollout = workload.rollout
    if rollout is None or rollout.engine != "transformers":
        return
    for fewer in _halved(rollout):
        yield f"{fewer.sequences} completions at once", replace(workload, rollout=fewer)


def _fewer_evaluated(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    for fewer in _halved(workload.evaluation) if workload.evaluation else ():
        yield (
            f"{fewer.sequences} completions of an evaluation at once",
            replace(workload, evaluation=fewer),
        )


def _halved(rollout: Rollout) -> Iterator[Rollout]:
    sequences = rollout.sequences // 2
    while sequences >= 1:
        yield replace(rollout, sequences=sequences)
        sequences //= 2


def _sharding(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    """The next stages of ZeRO on the same GPUs."""
    ladder = ("single", "ddp", "zero1", "zero2", "zero3")
    if not workload.train or workload.gpus == 1 or workload.strategy not in ladder:
        return
    for strategy in ("zero1", "zero2", "zero3"):
        if ladder.index(strategy) > ladder.index(workload.strategy) and _can_shard(workload):
            frozen = tuple(replace(f, sharded=strategy == "zero3") for f in workload.frozen)
            changed = replace(workload, strategy=strategy, frozen=frozen)
            yield f"ZeRO stage {strategy[-1]}", changed


def _can_shard(workload: Workload) -> bool:
    """4-bit weights cannot be divided by ZeRO-3, and gain nothing from the other stages."""
    return workload.adapter is None or not workload.adapter.quantised


def _more_gpus(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    """Twice as many, and so on, with the states divided over all of them."""
    gpus = workload.gpus * 2
    while workload.train and _can_shard(workload) and gpus <= LARGEST_CLUSTER:
        strategy = workload.strategy if workload.strategy in ("zero3", "fsdp") else "zero3"
        frozen = tuple(replace(f, sharded=True) for f in workload.frozen)
        rows, accumulation = _divided(workload, gpus)
        changed = replace(workload, gpus=gpus, strategy=strategy, frozen=frozen)
        changed = replace(changed, rows=rows, accumulation=accumulation)
        how = "" if strategy == workload.strategy else " with ZeRO stage 3"
        if changed.global_rows != workload.global_rows:
            how += f", global batch {changed.global_rows // changed.unit}"
        if changed.micro not in workload.refused:
            yield f"{gpus} GPUs{how}", changed
        gpus *= 2


def _divided(workload: Workload, gpus: int) -> tuple[int, int]:
    """Micro-batch and accumulation that give the same global batch; where it is too small or does
    not divide, the smallest batch that so many GPUs can have."""
    each, rest = divmod(workload.global_rows, gpus)
    sizes = range(min(workload.rows, each), 0, -1)
    rows = next((r for r in sizes if each % r == 0 and r % workload.unit == 0), 0)
    return (workload.unit, 1) if rest or not rows else (rows, each // rows)


def _bf16(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    if workload.element == 4 and not workload.autocast and device.kind == "gpu":
        yield "precision: bfloat16", replace(workload, autocast=True)


def _narrow_optimizer(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    if workload.train and workload.optimizer == "adamw" and workload.strategy in ("single", "ddp"):
        yield "8-bit AdamW", replace(workload, optimizer="adamw_8bit")


def _narrow_weights(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    if workload.element == 4 and workload.strategy in ("single", "ddp") and device.kind == "gpu":
        yield "weights in bf16", replace(workload, element=2)


def _lora(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    """An adapter; the model without it is the reference, which then needs no copy."""
    if workload.train and workload.adapter is None:
        frozen = tuple(f for f in workload.frozen if f.role != "reference")
        yield "a LoRA adapter", replace(workload, adapter=Adapter(), frozen=frozen, element=2)


def _qlora(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    single = workload.strategy in ("single", "ddp")
    quantised = workload.adapter is not None and workload.adapter.quantised
    if workload.train and not quantised and single and device.kind == "gpu":
        adapter = replace(workload.adapter or Adapter(), quantised=True, element=2)
        frozen = tuple(f for f in workload.frozen if f.role != "reference")
        changed = replace(workload, adapter=adapter, frozen=frozen, element=2)
        yield "a QLoRA adapter (4-bit base)", changed


def _shorter(workload: Workload, device: Device) -> Iterator[tuple[str, Workload]]:
    if workload.rollout is not None:
        return  # the length is the rollout's, whose completions would be cut
    for length in range((workload.length - 1) // 256 * 256, workload.length // 4, -256):
        yield f"length {length}", replace(workload, length=length)


HARMLESS: tuple[Kind, ...] = (
    _checkpointing,
    _chunked_loss,
    _fused_attention,
    smaller_batches,
    _sleeping,
    _share,
    _fewer_sequences,
    _fewer_evaluated,
)
COSTLY: tuple[Kind, ...] = (
    _sharding,
    _more_gpus,
    _bf16,
    _narrow_weights,
    _narrow_optimizer,
    _lora,
    _qlora,
    _shorter,
)
