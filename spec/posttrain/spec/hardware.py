"""Where stages run: the target machine, how a stage lies on it, the image, what is tried again."""

from typing import Literal

from posttrain.spec.declaration_fields import Declaration, field


class Rollouts(Declaration):
    """Where a method that learns from its own completions has them written."""

    engine: Literal["auto", "transformers", "vllm"] = field(
        default="auto", description="What writes them; auto is vllm on GPUs, transformers elsewhere."
    )
    mode: Literal["colocate", "server"] = field(
        default="colocate",
        description="Whether vLLM shares the GPUs of the training, or has GPUs of its own.",
    )
    gpus: int | None = field(default=None, ge=1, description="GPUs of vLLM's own, with `mode: server`.")
    gpu_memory_utilization: float | None = field(
        default=None, gt=0, lt=1, description="The share of a GPU that vLLM takes; computed if not given."
    )
    tensor_parallel_size: int | None = field(
        default=None, ge=1, description="GPUs that vLLM divides the model over; the fewest that hold it."
    )
    enable_sleep_mode: bool | None = field(
        default=None, description="Whether vLLM gives its memory back while the model trains."
    )


class Placement(Declaration):
    """How a training stage lies on the target. What is not given, the compiler chooses, and says why."""

    num_processes: int | None = field(
        default=None, ge=1, description="Processes, one a GPU; as many as the batch divides by."
    )
    strategy: Literal["auto", "single", "ddp", "zero1", "zero2", "zero3", "fsdp"] = field(
        default="auto",
        description="How the states are divided over processes: ddp not at all, zero1 to zero3 and fsdp"
        " more and more; auto takes the first that fits.",
    )
    rollouts: Rollouts = field(default_factory=Rollouts, description="Where completions are written.")


class Hardware(Declaration):
    """The target machine, which need not be this one."""

    gpus: str | None = field(default=None, description="Count and kind, such as 8xH100-80GB.")
    nodes: int = field(default=1, ge=1, description="Machines of that kind.")
    cpus: int | None = field(default=None, ge=1, description="Cores that a computing step takes; else one.")
    memory_gb: float | None = field(default=None, gt=0, le=1e6, description="Main memory a machine, in GB.")
    price_per_hour: float | None = field(
        default=None, ge=0, le=1e6, description="What a machine costs an hour, for estimates."
    )


class Container(Declaration):
    """The image that steps run in."""

    image: str = field(description="An image by digest: NAME@sha256:...")


class Retry(Declaration):
    """What to do about failures that may pass."""

    attempts: int = field(default=1, ge=1, le=10, description="Tries in all.")
    wait_seconds: float = field(default=5.0, ge=0, description="The first pause; it doubles.")
