"""Rows without a token to train on, in TRL's experimental trainers."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset
from tests.runtime.trl_compat.necessity import obsolete

from posttrain.runtime.training.preference_training import import_experimental
from posttrain.runtime.trl_compat.unlabeled_rows import drop_unlabeled_rows


@pytest.mark.parametrize(("name", "trainer"), [("cpo", "CPOTrainer"), ("orpo", "ORPOTrainer")])
def test_trl_computes_nan_for_them(name: str, trainer: str) -> None:
    kind: Any = getattr(import_experimental(name), trainer)
    labels = torch.tensor([[-100, -100, -100], [-100, 1, 2]])
    found = kind.get_batch_logps(torch.zeros(2, 3, 4), labels, average_log_prob=True)
    assert found.isnan().tolist() == [True, False], obsolete("unlabeled_rows")


def test_they_are_dropped_if_rows_have_labels() -> None:
    labels = {
        "chosen_labels": [[-100, 1], [-100, -100], [-100, 2], [3]],
        "rejected_labels": [[4], [-100, 5], [], [-100, 6]],
    }
    trainer = SimpleNamespace(train_dataset=Dataset.from_dict({**labels, "row": [0, 1, 2, 3]}))
    drop_unlabeled_rows(trainer)
    assert trainer.train_dataset["row"][:] == [0, 3]
    plain = trainer.train_dataset = Dataset.from_dict({"input_ids": [[1], [2]]})
    drop_unlabeled_rows(trainer)
    assert trainer.train_dataset is plain
