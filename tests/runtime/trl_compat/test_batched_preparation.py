"""The tokens of preference trainers are those of TRL in one process, in any number of processes."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.small_tokenizers import small_tokenizer
from tests.runtime.trl_compat.necessity import obsolete

from posttrain.runtime.training_rows import row_workers
from posttrain.runtime.trl_compat.batched_preparation import EVAL, TRAIN, batched_preparation_trainer

COLUMNS = {
    "dpo": ("prompt_ids", "chosen_ids", "rejected_ids"),
    "kto": ("prompt_ids", "completion_ids", "label", "KL_completion_ids"),
    "reward": ("chosen_ids", "rejected_ids"),
}


def trainer_class(name: str) -> Any:
    from trl import DPOTrainer, KTOTrainer, RewardTrainer

    return {"dpo": DPOTrainer, "kto": KTOTrainer, "reward": RewardTrainer}[name]


def rows_of(name: str, *, chat: bool) -> Any:
    from datasets import Dataset

    drawn = random.Random(3)

    def text(role: str) -> Any:
        words = "".join(drawn.choices("0123456789+=", k=drawn.randint(1, 25)))
        return [{"role": role, "content": words}] if chat else words

    if name == "kto":
        return Dataset.from_list(
            [
                {"prompt": text("user"), "completion": text("assistant"), "label": drawn.random() < 0.5}
                for _ in range(100)
            ]
        )
    return Dataset.from_list(
        [
            {"prompt": text("user"), "chosen": text("assistant"), "rejected": text("assistant")}
            for _ in range(100)
        ]
    )


def prepared(kind: Any, name: str, data: Any, tokenizer: Any, **arguments: Any) -> list[dict[str, Any]]:
    """The tokens of rows, from a trainer that is not initialized."""
    trainer = kind.__new__(kind)
    trainer.__dict__ |= {
        "_tokenizer": tokenizer,
        **({"calculate_KL": True} if name == "kto" else {}),
        "desirable_weight": 1.0,
        "undesirable_weight": 1.0,
    }
    options = {"dataset_num_proc": None, "max_length": 22, "truncation_mode": "keep_start"}
    args = SimpleNamespace(**options | {"per_device_train_batch_size": 6} | arguments)
    found = trainer._prepare_dataset(data, tokenizer, args, TRAIN)
    return found.select_columns(list(COLUMNS[name])).to_list()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("name", COLUMNS)
def test_tokens_are_those_of_trl(
    name: str, chat: bool, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if workers > 1:
        monkeypatch.setattr(row_workers, "_SMALL_ROWS", 0)
        monkeypatch.setattr(row_workers, "_BATCH_ROWS", 9)
        monkeypatch.setattr(row_workers, "available_cpus", lambda: workers)
    tokenizer = small_tokenizer("adds_bos", "with_bos" if chat else "none")
    data, base = rows_of(name, chat=chat), trainer_class(name)
    rows = SimpleNamespace(data=data, key="rows", cache=tmp_path)
    kind = batched_preparation_trainer(base, {TRAIN: rows, EVAL: None}, "tokenizer")
    expected = prepared(base, name, data, tokenizer)
    assert 0 < len(expected) < len(data), "some rows are dropped"
    assert prepared(kind, name, data, tokenizer) == expected
    assert prepared(kind, name, data, tokenizer, max_length=500) == prepared(
        base, name, data, tokenizer, max_length=500
    ), "the cache tells arguments apart"


def test_trl_pairs_other_completions_in_several_processes() -> None:
    tokenizer, data, base = small_tokenizer("adds_bos"), rows_of("kto", chat=False), trainer_class("kto")
    alone = prepared(base, "kto", data, tokenizer)
    divided = prepared(base, "kto", data, tokenizer, dataset_num_proc=3)
    assert divided != alone, obsolete("batched_preparation")
