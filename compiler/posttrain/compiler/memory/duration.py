"""How long a workload takes and what it costs: a range, since the card's speed is never reached.

Training: k operations per parameter and token (2 forward, 4 backward, 2 more where the forward
is computed again, 2 fewer where the weights learn nothing) at a share of the card's speed.
Generating: each token of a batch reads all weights and the whole cache once, so bandwidth decides.
Either way a layer costs the time to launch its kernels, which is what small models wait for.
"""

from typing import NamedTuple

from posttrain.compiler.facts import parameters
from posttrain.compiler.facts.accelerators import Device
from posttrain.compiler.facts.shapes import Shape
from posttrain.compiler.memory.generation import ELEMENT, cache
from posttrain.compiler.memory.terms import count
from posttrain.compiler.memory.workload import Rollout, Workload

# Shares of the dense bf16 speed that training reaches, worst and best: full, LoRA, QLoRA
FULL = (0.35, 0.45)
LORA = (0.20, 0.35)
QLORA = (0.12, 0.25)
CPU = (0.2, 0.6)
FORWARD = (0.3, 0.5)  # prompts and frozen models
BANDWIDTH = (0.45, 0.8)  # of the card's bandwidth while decoding
# Seconds that one layer costs whatever its size, worst and best: a forward and a backward of a
# micro-batch as transformers writes them, and a decoded token
LAUNCH = (0.0035, 0.0015)
DECODE = {"transformers": (0.0015, 0.0007), "vllm": (0.00025, 0.0001)}


class Schedule(NamedTuple):
    """How much there is to do. Means, where the workload has maxima."""

    steps: int  # optimizer steps
    tokens: float  # of a training row, on average
    generated: int = 0  # completions per optimizer step, over all GPUs
    completion: float = 0  # tokens of a completion, on average


class Share(NamedTuple):
    """One cause of time, in seconds: at best and at worst."""

    name: str
    least: float
    most: float
    why: str


class Duration(NamedTuple):
    least: float  # seconds
    most: float
    shares: tuple[Share, ...]
    tokens: float  # that pass through training
    least_dollars: float
    most_dollars: float


def duration(workload: Workload, device: Device, schedule: Schedule) -> Duration:
    shares = (
        *(_training(workload, device, schedule) if workload.train else ()),
        *_frozen(workload, device, schedule),
        *_generating(workload, device, schedule),
    )
    least, most = sum(s.least for s in shares), sum(s.most for s in shares)
    price = workload.gpus * device.dollars_per_hour / 3600
    tokens = schedule.steps * workload.global_rows * schedule.tokens
    return Duration(least, most, shares, tokens, least * price, most * price)


def _training(workload: Workload, device: Device, schedule: Schedule) -> tuple[Share, ...]:
    rows = workload.global_rows * schedule.steps
    factor = (4 if workload.adapter else 6) + (2 if workload.checkpointing else 0)
    tokens = rows * schedule.tokens
    operations = factor * tokens * _effective(workload.model, schedule.tokens)
    if workload.value is not None:
        operations += factor * tokens * _effective(workload.value, schedule.tokens)
    worst, best = _reached(workload, device)
    speed = workload.gpus * device.tflops * 1e12
    models = 1 + (workload.value is not None)
    passes = schedule.steps * workload.accumulation * workload.model.layers * models
    passes *= 4 / 3 if workload.checkpointing else 1
    launched = _launched(device)
    least = max(operations / speed / best, passes * launched[1])
    most = max(operations / speed / worst, passes * launched[0])
    why = f"{factor} x {count(workload_size(workload))} x {count(tokens)} tokens"
    return (Share("training", least, most, why),)


def workload_size(workload: Workload) -> int:
    """Parameters that a trained token passes through."""
    value = parameters.active(workload.value) if workload.value else 0
    return parameters.active(workload.model) + value


def _effective(shape: Shape, length: float) -> float:
    """Parameters, and attention as if it were some: each token meets half of the row."""
    full = sum(b.layers for b in parameters.blocks(shape) if b.mixer == "full")
    seen = min(length, shape.window) if shape.window else 0
    windowed = sum(b.layers for b in parameters.blocks(shape) if b.mixer == "window")
    attention = shape.query_width * (full * length + windowed * seen)
    return parameters.computed(shape) + attention


def _reached(workload: Workload, device: Device) -> tuple[float, float]:
    if device.kind == "cpu":
        return CPU
    if workload.adapter is None:
        return FULL
    return QLORA if workload.adapter.quantised else LORA


def _launched(device: Device) -> tuple[float, float]:
    return (0.0, 0.0) if device.kind == "cpu" else LAUNCH


def _frozen(workload: Workload, device: Device, schedule: Schedule) -> tuple[Share, ...]:
    """Reference and reward models read every row once."""
    speed = workload.gpus * device.tflops * 1e12
    worst, best = FORWARD
    tokens = schedule.steps * workload.global_rows * schedule.tokens
    return tuple(
        Share(
            f"{model.role} model",
            2 * tokens * _effective(model.shape, schedule.tokens) / speed / best,
            2 * tokens * _effective(model.shape, schedule.tokens) / speed / worst,
            f"2 x {count(parameters.active(model.shape))} x {count(tokens)} tokens",
        )
        for model in workload.frozen
    )


def _generating(workload: Workload, device: Device, schedule: Schedule) -> tuple[Share, ...]:
    rollout = workload.rollout
    if rollout is None or not schedule.generated:
        return ()
    each = -(-schedule.generated // workload.gpus)
    at_once = min(rollout.sequences, each)
    rounds = schedule.steps * each / at_once
    # transformers goes on until the longest completion ends; vLLM fills the gaps
    length = rollout.completion if rollout.engine == "transformers" else schedule.completion
    least, most = _token(workload, rollout, device, at_once, length)
    prompt = 2 * rollout.prompt * at_once * _effective(workload.model, rollout.prompt)
    first = prompt / (device.tflops * 1e12)
    why = f"{count(schedule.steps * schedule.generated)} completions, {at_once} at once on a GPU"
    return (
        Share(
            "generating",
            rounds * (length * least + first / FORWARD[1]),
            rounds * (length * most + first / FORWARD[0]),
            why,
        ),
    )


def _token(
    workload: Workload, rollout: Rollout, device: Device, at_once: int, length: float
) -> tuple[float, float]:
    """Seconds for one more token of each sequence: at best, at worst."""
    shape = workload.model
    weights = ELEMENT * parameters.active(shape) / rollout.tensor_parallel
    average = rollout.prompt + int(length / 2)
    held = at_once * cache(shape, average)
    reading = (weights + held) / (device.gb_per_s * 1e9)
    computing = 2 * at_once * parameters.active(shape) / (device.tflops * 1e12)
    work = max(reading, computing)
    slow, fast = (0.0, 0.0) if device.kind == "cpu" else DECODE[rollout.engine]
    return (
        max(work / BANDWIDTH[1], shape.layers * fast),
        max(work / BANDWIDTH[0], shape.layers * slow),
    )
