"""Where and how stages run: target machine, placement, container image, retries."""

from typing import Literal

from pydantic import Field

from posttrain.spec.declaration_fields import Declaration

DEFAULT_MEMORY_HEADROOM = 0.1


class Rollouts(Declaration):
    """Generation of rollouts during training, for online methods such as grpo."""

    engine: Literal["auto", "transformers", "vllm"] = Field(
        default="auto", description="Generation engine; auto is vllm on GPUs and transformers elsewhere."
    )
    mode: Literal["colocate", "server"] = Field(
        default="colocate",
        description="Whether vLLM shares the training GPUs (`colocate`) or has its own (`server`).",
    )
    gpus: int | None = Field(
        default=None, ge=1, description="Number of GPUs reserved for vLLM, with `mode: server`."
    )
    gpu_memory_utilization: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Fraction of GPU memory for vLLM. Default: computed by the compiler.",
    )
    tensor_parallel_size: int | None = Field(
        default=None,
        ge=1,
        description="Number of GPUs over which vLLM splits the model. Default: the fewest that hold it.",
    )
    enable_sleep_mode: bool | None = Field(
        default=None, description="Whether vLLM releases its GPU memory during training steps."
    )


class Placement(Declaration):
    """Layout of a training stage on the target machine. The compiler chooses the values that are not set."""

    num_processes: int | None = Field(
        default=None,
        ge=1,
        description="Number of processes, one per GPU. Default: the most by which the batch is divisible.",
    )
    strategy: Literal["auto", "single", "ddp", "zero1", "zero2", "zero3", "fsdp"] = Field(
        default="auto",
        description="Parallelism strategy. ddp replicates the model; zero1, zero2, zero3 and fsdp shard"
        " increasingly more of its states. auto takes the first one that fits in memory.",
    )
    rollouts: Rollouts = Field(
        default_factory=Rollouts, description="Generation of rollouts, for online methods."
    )


class Hardware(Declaration):
    """The target machine. It can differ from the machine that compiles the recipe."""

    gpus: str | None = Field(default=None, description="Number and type of GPUs, such as 8xH100-80GB.")
    nodes: int = Field(
        default=1,
        ge=1,
        description="Number of machines. A training stage takes the fewest whose GPUs suffice. A stage on"
        " more than one needs a cluster: `recipe run --on NAME`.",
    )
    cpus: int | None = Field(default=None, ge=1, description="CPU cores of each computing step. Default: 1.")
    memory_gb: float | None = Field(default=None, gt=0, le=1e6, description="Main memory per machine, in GB.")
    memory_headroom: float = Field(
        default=DEFAULT_MEMORY_HEADROOM,
        ge=0,
        lt=1,
        description="Fraction of each GPU's memory that the placement of a training stage leaves free,"
        " because the memory estimate has errors. Raise it after an out-of-memory error.",
    )
    price_per_hour: float | None = Field(
        default=None, ge=0, le=1e6, description="Price per machine and hour, for cost estimates."
    )


class Container(Declaration):
    """A container image for steps."""

    image: str = Field(description="Image by digest: NAME@sha256:...")


class Retry(Declaration):
    """Retries after transient failures."""

    attempts: int = Field(
        default=1, ge=1, le=10, description="Maximum number of attempts, the first one included."
    )
    wait_seconds: float = Field(
        default=5.0,
        ge=0,
        description="Seconds before the second attempt. The wait doubles after each attempt.",
    )
