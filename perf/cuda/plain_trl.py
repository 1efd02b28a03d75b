"""Training methods as TRL scripts for a GPU, without posttrain: the same settings as a stage of a plan.

`perf/trl_baseline.py` has the parts that do not depend on the device. TRL has no PPO trainer.
"""

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from perf.trl_baseline import conversations, order_by_epoch, read_rows

METHODS = ("sft", "dpo", "reward_model", "grpo")
_COLUMNS = {
    "sft": ("prompt", "completion"),
    "dpo": ("prompt", "chosen", "rejected"),
    "reward_model": ("prompt", "chosen", "rejected"),
    "grpo": ("prompt", "answer"),
}


_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def solution_reward(completions: list[Any], answer: list[str], **_: Any) -> list[float]:
    """The reward `solution` of the recipes as a function."""
    found = [_ANSWER.search(turns[0]["content"]) for turns in completions]
    texts = ["" if one is None else one[1].strip() for one in found]
    return [0.5 * bool(text) + float(text == right) for text, right in zip(texts, answer, strict=True)]


@dataclass
class PlainRun:
    losses: list[float] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    weights: str = ""  # a digest of the trained weights
    peak_mb: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return vars(self)


def train_plain(step: Mapping[str, Any], inputs: Mapping[str, str], **extra: Any) -> dict[str, Any]:
    """Train as the stage does. `extra` are further arguments of the trainer's configuration."""
    import torch
    from transformers import TrainerCallback

    run = PlainRun()

    class Recorder(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.began = time.monotonic()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if torch.cuda.is_initialized():  # as in a stage, the time includes all kernels of the step
                torch.cuda.synchronize()
            run.step_seconds.append(time.monotonic() - self.began)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if "loss" in (logs or {}):
                run.losses.append(logs["loss"])

    trainer = build_trainer(step, inputs, **extra)
    trainer.add_callback(Recorder())
    trainer.train()
    run.weights = weights_digest(trainer.model)
    run.peak_mb = _peak_mb()
    return run.as_json()


def build_trainer(step: Mapping[str, Any], inputs: Mapping[str, str], **extra: Any) -> Any:
    from transformers import AutoTokenizer

    trl: Any = import_module("trl")
    declared, seed = step["params"], step["params"]["seed"]
    method, params = declared["method"], declared["params"]
    config, trainer = {
        "sft": (trl.SFTConfig, trl.SFTTrainer),
        "dpo": (trl.DPOConfig, trl.DPOTrainer),
        "reward_model": (trl.RewardConfig, trl.RewardTrainer),
        "grpo": (trl.GRPOConfig, trl.GRPOTrainer),
    }[method]
    rows = read_rows(inputs["data"])
    own = _own_arguments(method, params)
    if method == "grpo":
        rows = order_by_epoch(rows, params, seed)
    arguments = {**_shared_arguments(params, seed), **own, **declared["trl"], **extra}
    attention = arguments.pop("attn_implementation", None)
    return trainer(
        model=_load_model(Path(inputs["model"]), method, declared, attention),
        args=config(**arguments),
        train_dataset=conversations(rows, _COLUMNS[method]),
        processing_class=AutoTokenizer.from_pretrained(inputs["model"]),
        peft_config=_adapter_config(method, declared["adapter"]),
        **({"reward_funcs": solution_reward} if method == "grpo" else {}),
    )


def _own_arguments(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    if method != "grpo":
        micro = params["micro_batch_size"] or params["batch_size"]
        packed = {"packing": True} if params.get("packing") else {}
        return {
            "per_device_train_batch_size": micro,
            "gradient_accumulation_steps": params["batch_size"] // micro,
            "max_length": params["max_length"],
            **packed,
        }
    batch = params["num_prompts"] * params["num_generations"]
    micro = params["micro_batch_size"] or batch
    return {
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": batch // micro,
        "num_generations": params["num_generations"],
        "max_completion_length": params["max_completion_length"],
        "beta": params["beta"],
        "shuffle_dataset": False,
    }


def _shared_arguments(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    return {
        "output_dir": "out",
        "seed": seed,
        "data_seed": seed,
        "max_steps": params["max_steps"],
        "learning_rate": params["learning_rate"],
        "bf16": params["precision"] == "bfloat16",
        "gradient_checkpointing": bool(params["gradient_checkpointing"]),
        "use_liger_kernel": bool(params["use_liger_kernel"]),
        "torch_compile": bool(params["torch_compile"]),
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }


def _load_model(folder: Path, method: str, declared: Mapping[str, Any], attention: str | None) -> Any:
    """Full weights train in float32, and adapters on weights in the stored format: as in a stage."""
    import torch
    from transformers import (
        AutoModelForCausalLM,
        AutoModelForSequenceClassification,
        BitsAndBytesConfig,
        set_seed,
    )

    adapter = declared["adapter"]
    arguments: dict[str, Any] = {"dtype": "auto" if adapter else torch.float32}
    if attention is not None:
        arguments["attn_implementation"] = attention
    if adapter and adapter["type"] == "qlora":
        arguments["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        )
        arguments["device_map"] = {"": 0}
    if method != "reward_model":
        return AutoModelForCausalLM.from_pretrained(folder, **arguments)
    set_seed(declared["seed"])  # the head is initialized at random
    return AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1, **arguments)


def _adapter_config(method: str, adapter: Mapping[str, Any] | None) -> Any:
    if not adapter or adapter["type"] == "full":
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=adapter["r"],
        lora_alpha=adapter["lora_alpha"],
        lora_dropout=adapter.get("lora_dropout", 0.0),  # the plan omits the default
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
        bias="none",
        task_type="SEQ_CLS" if method == "reward_model" else "CAUSAL_LM",
    )


def weights_digest(model: Any) -> str:
    """A digest of all trained weights, bit by bit."""
    import torch

    found = hashlib.sha256()
    for name, weight in sorted(model.named_parameters()):
        if weight.requires_grad:
            found.update(name.encode())
            found.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def _peak_mb() -> float:
    import torch

    return torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_initialized() else 0.0
