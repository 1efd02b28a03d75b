"""The losses of held-out rows by a trainer of TRL alone, with a finished product as its model."""

import json
from pathlib import Path
from typing import Any

from tests.runtime.rows_by_hand import label_rows, to_dataset

from posttrain.runtime.rows_io import read_rows
from posttrain.runtime.store.products import Product
from posttrain.runtime.training.row_preparation import as_messages

_PAIR = ("prompt", "chosen", "rejected")


def losses_by_hand(
    method: str, made: dict[str, Product], folder: Path, batch_size: int
) -> tuple[list[float], dict[str, float]]:
    """Return the loss of each batch of the test rows, and the result of the trainer's `evaluate`."""
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

    kind: Any = AutoModelForSequenceClassification if method == "reward_model" else AutoModelForCausalLM
    model = kind.from_pretrained(made["it"].files)
    for weight in model.parameters():  # in memory of its own: the kernels for aligned data round differently
        weight.data = weight.data.clone()
    tokenizer = AutoTokenizer.from_pretrained(made["it"].files)
    rows = [as_messages(row) for row in read_rows(made["datasets.sums"].files, "test")]
    trainer, config, columns, own = _trainer(method)
    if method == "kto":
        seed = json.loads((made["it"].record / "step.json").read_text())["params"]["seed"]
        rows = label_rows([{name: row[name] for name in _PAIR} for row in rows], seed)
    data = to_dataset(rows, columns)
    args = config(
        output_dir=str(folder),
        per_device_train_batch_size=batch_size,
        per_device_eval_batch_size=batch_size,
        use_cpu=True,
        bf16=False,
        max_length=64,
        report_to="none",
        disable_tqdm=True,
        **own,
    )
    reference = AutoModelForCausalLM.from_pretrained(made["sft"].files)
    models = {"ref_model": reference} if method in ("dpo", "kto") else {}
    built = trainer(
        model=model, args=args, train_dataset=data, eval_dataset=data, processing_class=tokenizer, **models
    )
    model.eval()
    losses = [float(built.prediction_step(model, batch, True)[0]) for batch in built.get_eval_dataloader()]
    for stored in ("_metrics", "_stored_metrics"):
        if hasattr(built, stored):
            getattr(built, stored)["eval"].clear()
    return losses, built.evaluate()


def _trainer(method: str) -> tuple[Any, Any, tuple[str, ...], dict[str, Any]]:
    """Return the trainer of a method, its configuration, the columns of the rows, and its arguments."""
    if method == "sft":
        from trl.trainer.sft_config import SFTConfig
        from trl.trainer.sft_trainer import SFTTrainer

        return SFTTrainer, SFTConfig, ("prompt", "completion"), {"completion_only_loss": True}
    if method == "dpo":
        from trl.trainer.dpo_config import DPOConfig
        from trl.trainer.dpo_trainer import DPOTrainer

        return DPOTrainer, DPOConfig, _PAIR, {"beta": 0.1}
    if method == "kto":
        from trl.trainer.kto_config import KTOConfig
        from trl.trainer.kto_trainer import KTOTrainer

        return KTOTrainer, KTOConfig, ("prompt", "completion", "label"), {"beta": 0.1}
    if method == "orpo":
        from trl.experimental.orpo import ORPOConfig, ORPOTrainer

        return ORPOTrainer, ORPOConfig, _PAIR, {"beta": 0.1}
    from trl.trainer.reward_config import RewardConfig
    from trl.trainer.reward_trainer import RewardTrainer

    return RewardTrainer, RewardConfig, _PAIR, {}
