"""The workload of a stage on one device, as plain numbers. Methods differ only in these values.

A preference pair (DPO) is two rows. A group of GRPO completions is as many rows as the micro-batch holds. PPO
adds a trained value model and a frozen reward model.
"""

from typing import Literal

from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.record import record

Strategy = Literal["single", "ddp", "zero1", "zero2", "zero3", "fsdp"]
Optimizer = Literal["adamw", "adamw_8bit", "adafactor", "lion", "sgd"]


@record
class LoraAdapter:
    """LoRA, or another adapter, on a frozen base model. `quantized`: the linear layers of the base are in 4
    bits (QLoRA)."""

    rank: int = 16
    target_modules: tuple[str, ...] = ()  # (): the default of the architecture (attention)
    quantized: bool = False
    double_quant: bool = False  # the quantization constants are quantized as well
    element: int = 4  # by default PEFT stores adapters in fp32, also for a bf16 base
    dropout: float = 0.0
    saved_outputs: int = 0  # outputs of each target module that the adapter saves in addition
    trains_head: bool = False  # whether the output layer has a gradient: it is trained, or some of its rows
    merges_head: bool = False  # whether each forward pass copies the output layer to replace trained rows


@record
class FrozenModel:
    """A model that only runs forward: a reference model or a reward model."""

    role: str
    shape: Shape
    element: int = 2
    rows: int = 1  # sequences in one forward pass
    sharded: bool = False  # sharded over the GPUs like the trained model (ZeRO-3, FSDP)
    scores: bool = False  # one score per sequence instead of logits per token


@record
class RolloutWorkload:
    """Text generation with the trained model: by transformers in the process of the trainer, by vLLM on
    the same GPUs, or by vLLM on other GPUs."""

    engine: Literal["transformers", "vllm"]
    prompt_tokens: int
    completion_tokens: int
    sequences: int  # at once on one device
    colocated: bool = True
    gpus: int = 0  # the separate GPUs that generate; 0 if those of the training do
    gpu_memory_utilization: float = 0.3  # the share of the GPU memory for vLLM
    tensor_parallel_size: int = 1
    enable_sleep_mode: bool = False  # vLLM frees its memory during training
    cuda_graphs: bool = True  # CUDA graphs for decoding


@record
class Workload:
    """One stage on `gpus` equal devices."""

    model: Shape
    length: int  # tokens of the longest row: prompt and completion together
    rows: int = 1  # sequences in one forward and backward pass on one device
    rows_per_example: int = 1  # rows that cannot be split: 2 for a preference pair
    refused_micro_batches: frozenset[int] = frozenset()  # micro-batch sizes that the loss does not support
    accumulation: int = 1
    gpus: int = 1
    nodes: int = 1  # over which the devices are spread equally
    train: bool = True
    element: Literal[2, 4] = 2  # bytes of a stored weight
    autocast: bool = True  # compute in bf16 whatever the format of the weights; the default of TRL
    optimizer: Optimizer = "adamw"
    strategy: Strategy = "single"
    adapter: LoraAdapter | None = None
    # Trained parameters, if they are neither all nor those of LoRA matrices of one rank.
    trained_parameters: int | None = None
    checkpointing: bool = False
    attention: Literal["sdpa", "flash", "eager"] = "sdpa"
    padded: bool = False  # rows of different length in one batch, for which SDPA needs a mask
    packed: bool = False  # all rows joined into one sequence, with one SDPA mask
    loss: Literal["chunked", "full", "scores"] = "chunked"
    frozen: tuple[FrozenModel, ...] = ()
    value_model: Shape | None = None  # a second model trained in the same step
    rollout: RolloutWorkload | None = None
    evaluation: RolloutWorkload | None = None  # the largest batch of an evaluation during training

    @property
    def tokens(self) -> int:
        return self.rows * self.length

    @property
    def micro_batch_size(self) -> int:
        """The micro-batch size of the recipe: rows that belong together count as one."""
        return self.rows // self.rows_per_example

    @property
    def global_rows(self) -> int:
        return self.rows * self.accumulation * self.gpus
