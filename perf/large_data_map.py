"""Renders, tokenizes and masks conversations with `datasets.map(num_proc=2)`; prints start and end."""

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

_MAX_LENGTH = 1024


def main(folder: Path, cache: str) -> None:
    import_module("trl.trainer.sft_trainer")  # what a training stage has in memory
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl.chat_template_utils import get_training_chat_template

    from posttrain.spec.chat_templates.builtin_templates import BUILTIN_TEMPLATES

    started = time.time()
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    template = BUILTIN_TEMPLATES["chatml"].text
    if "generation" not in template:
        tokenizer.chat_template = template
        template = get_training_chat_template(tokenizer)
    rows: Any = Dataset.from_parquet(str(folder / "rows.parquet"), cache_dir=cache)
    rows.map(
        tokenize,
        batched=True,
        num_proc=2,
        remove_columns=rows.column_names,
        fn_kwargs={"tokenizer": tokenizer, "template": template},
    )
    print(json.dumps([started, time.time()]))


def tokenize(batch: dict[str, Any], tokenizer: Any, template: str) -> dict[str, Any]:
    found = tokenizer.apply_chat_template(
        batch["messages"], chat_template=template, return_dict=True, return_assistant_tokens_mask=True
    )
    pairs = zip(found["input_ids"], found["assistant_masks"], strict=True)
    labels = [[token if bit else -100 for token, bit in zip(*pair, strict=True)] for pair in pairs]
    return {
        "input_ids": [ids[:_MAX_LENGTH] for ids in found["input_ids"]],
        "labels": [one[:_MAX_LENGTH] for one in labels],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
