"""Each training method as a TRL script, without posttrain.

`perf/methods.py` compares the stages of a recipe with these: the losses must be equal, and the times
show the overhead. Arguments that a typical script omits have TRL's defaults.
"""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROLES = {"prompt": "user", "completion": "assistant", "chosen": "assistant", "rejected": "assistant"}
_ANSWER_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def train_with_trl(step: dict[str, Any], inputs: dict[str, str], stepped: Callable[[], None]) -> list[float]:
    """Train as the stage does and return the losses. Call `stepped` after each logged loss."""
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if "loss" in (logs or {}):
                stepped()

    made = make_trainer(
        step["params"]["method"], step["params"], Path(inputs["model"]), read_rows(inputs["data"])
    )
    made.add_callback(Clock())
    made.train()
    made.save_model("product")
    return [entry["loss"] for entry in made.state.log_history if "loss" in entry]


def read_rows(folder: str) -> list[dict[str, Any]]:
    import pyarrow.parquet as parquet

    return parquet.read_table(Path(folder) / "all.parquet").to_pylist()


def make_trainer(method: str, step: dict[str, Any], model: Path, rows: list[dict[str, Any]]) -> Any:
    params, seed = step["params"], step["seed"]
    match method:
        case "grpo" | "rloo":
            return _online_trainer(method, params, seed, model, order_by_epoch(rows, params, seed))
        case "kto":
            return _kto_trainer(params, seed, model, rows)
        case "reward_model":
            return _reward_model_trainer(params, seed, model, rows)
        case _:
            return _offline_trainer(method, params, seed, model, rows)


def _offline_trainer(method: str, params: dict[str, Any], seed: int, model: Path, rows: list[Any]) -> Any:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer
    from trl.experimental.cpo import CPOConfig, CPOTrainer
    from trl.experimental.orpo import ORPOConfig, ORPOTrainer

    simple = {"loss_type": "simpo", "cpo_alpha": 0.0, "simpo_gamma": 1.0, "beta": 2.0}
    config, kind, more = {
        "sft": (SFTConfig, SFTTrainer, {}),
        "dpo": (DPOConfig, DPOTrainer, {}),
        "ipo": (DPOConfig, DPOTrainer, {"loss_type": "ipo"}),
        "orpo": (ORPOConfig, ORPOTrainer, {}),
        "cpo": (CPOConfig, CPOTrainer, {}),
        "simpo": (CPOConfig, CPOTrainer, simple),
    }[method]
    columns = ("prompt", "completion") if method == "sft" else ("prompt", "chosen", "rejected")
    return kind(
        model=AutoModelForCausalLM.from_pretrained(model),
        args=config(**shared_arguments(params, seed), **more, max_length=64),
        train_dataset=conversations(rows, columns),
        processing_class=AutoTokenizer.from_pretrained(model),
    )


def _reward_model_trainer(params: dict[str, Any], seed: int, model: Path, rows: list[Any]) -> Any:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, set_seed
    from trl import RewardConfig, RewardTrainer

    set_seed(seed)
    return RewardTrainer(
        model=AutoModelForSequenceClassification.from_pretrained(model, num_labels=1),
        args=RewardConfig(**shared_arguments(params, seed), max_length=64),
        train_dataset=conversations(rows, ("prompt", "chosen", "rejected")),
        processing_class=AutoTokenizer.from_pretrained(model),
    )


def _kto_trainer(params: dict[str, Any], seed: int, model: Path, rows: list[Any]) -> Any:
    """TRL trains in the order of the rows: shuffle them, and split the pairs."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import KTOConfig, KTOTrainer

    random.Random(seed).shuffle(rows)
    apart = [
        {"prompt": row["prompt"], "completion": row[which], "label": which == "chosen"}
        for row in rows
        for which in ("chosen", "rejected")
    ]
    given = shared_arguments(params, seed) | {"per_device_train_batch_size": params["batch_size"] * 2}
    return KTOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model),
        args=KTOConfig(**given, max_length=64),
        train_dataset=conversations(apart, ("prompt", "completion", "label")),
        processing_class=AutoTokenizer.from_pretrained(model),
    )


def _online_trainer(method: str, params: dict[str, Any], seed: int, model: Path, rows: list[Any]) -> Any:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

    config, kind = (GRPOConfig, GRPOTrainer) if method == "grpo" else (RLOOConfig, RLOOTrainer)
    written = {
        "per_device_train_batch_size": params["num_prompts"] * params["num_generations"],
        "num_generations": params["num_generations"],
        "max_completion_length": params["max_completion_length"],
        "shuffle_dataset": False,
    }
    return kind(
        model=AutoModelForCausalLM.from_pretrained(model),
        args=config(**shared_arguments(params, seed) | written),
        train_dataset=conversations(rows, ("prompt", "answer")),
        processing_class=AutoTokenizer.from_pretrained(model),
        reward_funcs=correct_answer_reward,
    )


def correct_answer_reward(completions: list[Any], answer: list[str], **_: Any) -> list[float]:
    found = [_ANSWER_TAG.search(turns[0]["content"]) for turns in completions]
    return [float(f is not None and f[1] == wanted) for f, wanted in zip(found, answer, strict=True)]


def order_by_epoch(rows: list[Any], params: dict[str, Any], seed: int) -> list[Any]:
    """The rows in the order in which a stage reads them, for all epochs.

    TRL uses one generator for all epochs, so that a resumed run would have another order.
    """
    import torch

    from posttrain.spec.keys import digest

    ordered: list[Any] = []
    for epoch in range(-(-params["max_steps"] * params["num_prompts"] // len(rows))):
        drawn = torch.Generator()
        drawn.manual_seed(int(digest([seed, epoch])[:15], 16))
        ordered += [rows[place] for place in torch.randperm(len(rows), generator=drawn).tolist()]
    return ordered


def shared_arguments(params: dict[str, Any], seed: int) -> dict[str, Any]:
    """The arguments common to all trainers."""
    return {
        "output_dir": "out",
        "seed": seed,
        "data_seed": seed,
        "max_steps": params["max_steps"],
        "learning_rate": params["learning_rate"],
        "per_device_train_batch_size": params.get("batch_size"),
        "bf16": False,
        "gradient_checkpointing": False,
        "logging_steps": 1,
        "save_steps": params["max_steps"] // 4,
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }


def conversations(rows: list[Any], columns: tuple[str, ...]) -> Any:
    from datasets import Dataset

    return Dataset.from_dict({name: [_messages(name, row[name]) for row in rows] for name in columns})


def _messages(name: str, value: Any) -> Any:
    return [{"role": ROLES[name], "content": value}] if name in ROLES else value
