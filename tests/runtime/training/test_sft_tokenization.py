"""Token ids and labels of SFT are those of TRL's trainer, for every kind of row and every argument."""

import random
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.small_tokenizers import small_tokenizer
from tests.runtime.training.test_tool_training import rows_for

from posttrain.runtime.training.row_tokenization import tokenizer_key
from posttrain.runtime.training.sft_rows import SftRows
from posttrain.runtime.training_rows import row_workers

MARKED = (
    "{% for m in messages %}{{ m.role[0] }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{{ eos_token }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)
WORDS = ("one", "two", "three 3", "a=b", "", "long " * 8)


def text(drawn: random.Random) -> str:
    return " ".join(drawn.choices(WORDS, k=drawn.randint(1, 4)))


def turns(drawn: random.Random, *roles: str) -> list[dict[str, str]]:
    return [{"role": role, "content": text(drawn) + "x"} for role in roles]


def rows_of(kind: str, count: int) -> list[dict[str, Any]]:
    drawn = random.Random(kind)
    every = {
        "text": lambda: {"text": text(drawn) + drawn.choice(("x", "x</s>"))},
        "pairs": lambda: {"prompt": text(drawn) + "x", "completion": text(drawn) + "x"},
        "messages": lambda: {"messages": turns(drawn, *("user", "assistant") * drawn.randint(1, 3))},
        "conversations": lambda: {
            "prompt": turns(drawn, "system", "user"),
            "completion": turns(drawn, "assistant"),
        },
        "other turns": lambda: {
            "prompt": turns(drawn, "user"),
            "completion": turns(drawn, "assistant", "user", "assistant"),
        },
    }
    return [every[kind]() for _ in range(count)]


def both(rows: SftRows, folder: Path, **arguments: Any) -> tuple[list[Any], list[Any]]:
    """The dataset of our stage and that of TRL's trainer, for the same rows and arguments."""
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    args = SFTConfig(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        report_to="none",
        assistant_only_loss=rows.assistant_only_loss,
        **arguments,
    )
    trainer: Any = SFTTrainer.__new__(SFTTrainer)
    trainer._tokenizer = rows.tokenizer
    trainer.completion_only_loss = rows.completion_only_loss
    trainer.chat_template = rows.template
    data = rows.training.data
    theirs = trainer._prepare_dataset(data, rows.tokenizer, args, args.packing, None, "train")
    ours = rows.tokenize(rows.training, "the data", args)
    names = ["input_ids", "labels", *(["seq_lengths"] if args.packing else [])]
    assert sorted(ours.column_names) == names
    return ours.to_list(), theirs.select_columns(names).to_list()


@pytest.fixture(params=["one process", "several"])
def workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "several":
        monkeypatch.setattr(row_workers, "_SMALL_ROWS", 0)
        monkeypatch.setattr(row_workers, "_BATCH_ROWS", 7)
        monkeypatch.setattr(row_workers, "available_cpus", lambda: 2)


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("loss_on_all", [False, True])
@pytest.mark.parametrize("kind", ["text", "pairs", "messages", "conversations", "other turns"])
@pytest.mark.parametrize("special", ["adds_bos_and_eos", "has_no_bos"])
def test_tokens_and_labels_are_those_of_trl(
    kind: str, special: str, loss_on_all: bool, tmp_path: Path
) -> None:
    tokenizer = small_tokenizer(special)
    tokenizer.chat_template = None if kind in ("text", "pairs") else MARKED
    rows = rows_for(tmp_path / "rows", rows_of(kind, 30), tokenizer, loss_on_all=loss_on_all)
    dropped = False
    for arguments in (
        {"max_length": None},
        {"max_length": 30},
        {"max_length": 30, "truncation_mode": "keep_end"},
    ):
        ours, theirs = both(rows, tmp_path, **arguments)
        assert ours == theirs
        dropped = dropped or len(ours) < 30
    assert dropped or loss_on_all or kind in ("text", "messages"), (
        "truncation leaves no completion of some rows"
    )


def test_packed_rows_are_those_of_trl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several batches of TRL's packing: which rows share a sequence depends on them."""
    monkeypatch.setattr(row_workers, "_SMALL_ROWS", 0)
    monkeypatch.setattr(row_workers, "available_cpus", lambda: 2)
    rows = rows_for(tmp_path / "rows", rows_of("text", 1100), small_tokenizer("has_no_bos"))
    ours, theirs = both(rows, tmp_path, packing=True, max_length=128, shuffle_dataset=True)
    assert ours == theirs


def test_shuffled_rows_have_the_order_of_trl(tmp_path: Path) -> None:
    rows = rows_for(tmp_path / "rows", rows_of("pairs", 50), small_tokenizer("has_no_bos"))
    ours, theirs = both(rows, tmp_path, shuffle_dataset=True, max_length=None)
    assert ours == theirs


def test_tokens_are_cached_by_the_tokenizer_and_the_arguments(tmp_path: Path) -> None:
    cache = tmp_path / "rows" / "home" / "row-cache"

    def entries(tokenizer: Any, **arguments: Any) -> int:
        both(rows_for(tmp_path / "rows", rows_of("messages", 5), tokenizer), tmp_path, **arguments)
        return len([path for path in cache.iterdir() if path.is_dir()])

    tokenizer = small_tokenizer("has_no_bos")
    tokenizer.chat_template = MARKED
    first = entries(tokenizer)
    assert entries(tokenizer) == first
    assert entries(tokenizer, max_length=9) == first + 1
    other = small_tokenizer("has_no_bos", merge=("o", "n"))
    other.chat_template = MARKED
    assert entries(other) == first + 2
    tokenizer.chat_template = MARKED.replace("[0]", "[:2]")
    assert entries(tokenizer) == first + 4  # of the checked rows, and of their tokens


def test_a_tokenizer_in_another_folder_has_the_same_key(tmp_path: Path) -> None:
    """The product of a model has another folder after a change that concerns only its weights."""
    from transformers import AutoTokenizer

    made = small_tokenizer("adds_bos")
    for name in ("one", "two"):
        made.save_pretrained(tmp_path / name)
    one, two = (AutoTokenizer.from_pretrained(tmp_path / name) for name in ("one", "two"))
    assert tokenizer_key(one) == tokenizer_key(two)
    two.add_tokens(["new"])
    assert tokenizer_key(one) != tokenizer_key(two)
