"""The sizes of the measurements: those of a card, and tiny ones with which the same code runs on a CPU."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perf.cuda.card import Card, cpu_device, find_card

from posttrain.compiler.facts.accelerators import Device

# The shapes of Qwen2.5 0.5B and 1.5B, and one whose checkpoints are written quickly.
_SMALL: Mapping[str, Any] = {
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "intermediate_size": 4864,
    "vocab_size": 151936,
}
_GPU_MODELS: Mapping[str, Mapping[str, Any]] = {
    "small": _SMALL,
    "medium": {
        **_SMALL,
        "hidden_size": 1536,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "intermediate_size": 8960,
    },
    "narrow": {**_SMALL, "num_hidden_layers": 6, "vocab_size": 32768},
}
_TINY: Mapping[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 64,
    "vocab_size": 96,
}
_CPU_MODELS: Mapping[str, Mapping[str, Any]] = {
    "small": _TINY,
    "medium": {
        **_TINY,
        "hidden_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 96,
    },
    "narrow": _TINY,
}
_METHODS = ("grpo", "sft", "dpo", "reward_model", "ppo")


@dataclass(frozen=True)
class Scale:
    """The sizes for a card. `card` is None for a dry run, which shows that the code works and measures
    nothing."""

    card: Card | None
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: _GPU_MODELS)
    stored_dtype: str = "bfloat16"  # of the model folders
    learning_rate: float = 1e-4  # of the first SFT, which starts from random weights
    warm_steps: int = 120  # of that SFT
    steps: int = 12  # of each compared training
    timed_steps: int = 12
    lengths: tuple[int, int] = (512, 2048)  # a short and a long row, in tokens
    rows: int = 16  # in a batch of the speed measurements
    micro_batch: int = 4
    profiled_methods: tuple[str, ...] = ("sft", "dpo", "grpo")
    # By model: the methods that train all weights, and those that train LoRA and QLoRA. The checkpoints of
    # the others with all weights of `medium` do not fit on a disk of 64 GB.
    full_methods: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {"small": _METHODS, "medium": ("grpo", "sft", "dpo")}
    )
    adapted_methods: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {"small": _METHODS, "medium": _METHODS}
    )
    killed_methods: tuple[str, ...] = ("grpo", "sft", "sft_lora", "dpo", "reward_model", "ppo")
    steps_after_kill: int = 8

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
            full_methods={"small": _METHODS, "medium": ("sft",)},
            adapted_methods={"small": ("sft",), "medium": ("sft",)},
            killed_methods=_METHODS,
            steps_after_kill=30,
        )
    card = find_card()
    if card is None:
        raise SystemExit("this machine has no NVIDIA card; `make cuda DRY=1` runs the same code on a CPU")
    return Scale(card)
