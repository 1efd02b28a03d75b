"""A transformers Trainer over a linear model on a CPU, without patches."""

from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainingArguments


class LinearLoss(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x: Any) -> dict[str, Any]:
        return {"loss": (self.layer(x) ** 2).mean()}


def tiny_trainer(folder: Path, kind: Any = Trainer, model: Any = None, **arguments: Any) -> Any:
    rows: Any = [{"x": torch.tensor([float(number)])} for number in range(8)]
    given: dict[str, Any] = {"per_device_train_batch_size": 2, "max_steps": 2, "save_steps": 1, **arguments}
    args = TrainingArguments(
        output_dir=str(folder), use_cpu=True, report_to="none", disable_tqdm=True, **given
    )
    return kind(model=model or LinearLoss(), args=args, train_dataset=rows)
