"""The sizes of the measurements: those of a card, and tiny ones with which the same code runs on a CPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perf.cuda.card import Card, cpu_device, find_card

from posttrain.compiler.facts.accelerators import Device

# The shapes of Qwen2.5 0.5B and 1.5B, and one whose checkpoints are written quickly.
_GPU_MODELS: Mapping[str, Mapping[str, Any]] = {
    "small": {
        "hidden_size": 896,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "intermediate_size": 4864,
        "vocab_size": 151936,
    },
    "medium": {
        "hidden_size": 1536,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "intermediate_size": 8960,
        "vocab_size": 151936,
    },
    "narrow": {
        "hidden_size": 896,
        "num_hidden_layers": 6,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "intermediate_size": 4864,
        "vocab_size": 32768,
    },
}
_CPU_MODELS: Mapping[str, Mapping[str, Any]] = {
    "small": {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 64,
        "vocab_size": 96,
    },
    "medium": {
        "hidden_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 96,
        "vocab_size": 96,
    },
    "narrow": {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 64,
        "vocab_size": 96,
    },
}


@dataclass(frozen=True)
class Scale:
    """`card` is None for a dry run. A dry run shows that the code works, and measures nothing."""

    card: Card | None
    models: Mapping[str, Mapping[str, Any]]
    stored_dtype: str  # of the model folders
    learning_rate: float  # of the first SFT, which starts from random weights
    warm_steps: int  # of that SFT
    steps: int  # of each compared training
    timed_steps: int
    lengths: tuple[int, int]  # a short and a long row, in tokens
    rows: int  # in a batch of the speed measurements
    micro_batch: int
    profiled_methods: tuple[str, ...]
    adapted_methods: tuple[str, ...]  # that train LoRA and QLoRA
    killed_methods: tuple[str, ...]
    steps_after_kill: int

    @property
    def dry(self) -> bool:
        return self.card is None

    @property
    def device(self) -> Device:
        return self.card.device if self.card else cpu_device()

    def hardware(self, count: int = 1) -> str:
        """The section of a recipe, or an empty string."""
        return f"hardware: {{gpus: {count}x{self.device.name}}}\n" if self.card else ""


def find_scale(*, dry: bool) -> Scale:
    if dry:
        return Scale(
            card=None,
            models=_CPU_MODELS,
            stored_dtype="float32",
            learning_rate=1e-2,
            warm_steps=12,
            steps=4,
            timed_steps=3,
            lengths=(16, 48),
            rows=4,
            micro_batch=2,
            profiled_methods=("sft",),
            adapted_methods=("sft",),
            killed_methods=("sft",),
            steps_after_kill=40,
        )
    card = find_card()
    if card is None:
        raise SystemExit("this machine has no NVIDIA card; `make cuda DRY=1` runs the same code on a CPU")
    return Scale(
        card=card,
        models=_GPU_MODELS,
        stored_dtype="bfloat16",
        learning_rate=1e-4,
        warm_steps=120,
        steps=12,
        timed_steps=12,
        lengths=(512, 2048),
        rows=16,
        micro_batch=4,
        profiled_methods=("sft", "dpo", "grpo"),
        adapted_methods=("grpo", "sft", "dpo", "reward_model", "ppo"),
        killed_methods=("grpo", "sft", "sft_lora", "dpo", "reward_model", "ppo"),
        steps_after_kill=8,
    )
