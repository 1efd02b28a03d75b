"""Rows that several processes check in batches have the errors and warnings of one check of all rows."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.rows_by_hand import label_rows
from tests.runtime.small_tokenizers import small_tokenizer

from posttrain.runtime.errors import StepError
from posttrain.runtime.rows_io import write_rows
from posttrain.runtime.step_context import StopRequest
from posttrain.runtime.training.row_preparation import PreparedRows
from posttrain.runtime.training.trainer_dataset import prepare_rows, shuffle_rows
from posttrain.runtime.training.validate_rows import row_warnings
from posttrain.runtime.training_rows import row_workers

TEMPLATE = "{% for m in messages %}{{ m.role }}:{{ m.content }}{% endfor %}{{ style }}"
ASK, ANSWER = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
TOOL_RESULT = {"role": "tool", "content": "1", "tool_call_id": "x"}


@pytest.fixture(params=["one process", "several"], autouse=True)
def workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "several":
        monkeypatch.setattr(row_workers, "_SMALL_ROWS", 0)
        monkeypatch.setattr(row_workers, "_BATCH_ROWS", 3)
        monkeypatch.setattr(row_workers, "available_cpus", lambda: 2)


def prepare(
    folder: Path, rows: list[dict[str, Any]], method: str = "sft", kwargs: Any = None, **options: Any
) -> PreparedRows:
    (folder / "home/work/key").mkdir(parents=True)
    write_rows(folder / "all.parquet", rows)
    (folder / "parts.txt").write_text("all")
    params = SimpleNamespace(method=method, prompts="auto", chat_template_kwargs=kwargs or {})
    context: Any = SimpleNamespace(
        inputs={"data": folder},
        params=params,
        part=lambda _: None,
        work=folder / "home/work/key",
        stop=StopRequest(),
    )
    tokenizer = small_tokenizer("has_no_bos")
    tokenizer.chat_template = TEMPLATE
    return prepare_rows(context, tokenizer, **options)


def talks(count: int, **others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Conversations, of which those with the given numbers (`row_7`) are others."""
    return [{"messages": others.get(f"row_{number}", [ASK, ANSWER])} for number in range(1, count + 1)]


ERRORS = {
    "a count over all rows": (
        talks(40, row_9=[ASK], row_22=[ASK], row_39=[ASK]),
        "3 of 40 rows have no assistant turn in `messages`; the first is row 9",
    ),
    "an earlier check of a later row": (
        talks(40, row_2=[ASK], row_31=[]),
        "1 of 40 rows have no turns in `messages`; the first is row 31",
    ),
    "a check of single rows": (
        talks(40, row_30=[ASK, TOOL_RESULT, ANSWER], row_12=[ASK, TOOL_RESULT, ANSWER]),
        "row 12: turn 2, the result of a tool, follows no turn of the assistant",
    ),
    "an order of turns after a count": (
        talks(40, row_1=[ASK, TOOL_RESULT, ANSWER], row_40=[ASK]),
        "1 of 40 rows have no assistant turn in `messages`; the first is row 40",
    ),
    "rows without any text": (
        talks(7, **{f"row_{n}": [ASK, {**ANSWER, "content": " "}] for n in range(1, 8)}),
        "`messages` is empty in all 7 rows: there is nothing to train on",
    ),
    "an argument that the template does not read": (
        [
            {**row, "chat_template_kwargs": '{"other": 1}' if number in (20, 33) else '{"style": 1}'}
            for number, row in enumerate(talks(40), 1)
        ],
        "row 20: the chat template does not read the argument `other`",
    ),
    "malformed tools": (
        [{**row, "tools": "[" if number in (8, 27) else None} for number, row in enumerate(talks(40), 1)],
        "row 8: not valid JSON",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_all_rows(name: str, tmp_path: Path) -> None:
    rows, message = ERRORS[name]
    with pytest.raises(StepError) as caught:
        prepare(tmp_path, rows)
    assert str(caught.value).startswith(message)
    assert caught.value.advice


def test_advice_about_roles_has_those_of_all_rows(tmp_path: Path) -> None:
    others = {"row_3": [{**ASK, "role": "gpt"}], "row_30": [{**ASK, "role": "human"}]}
    with pytest.raises(StepError, match="2 of 40 rows have no assistant turn") as caught:
        prepare(tmp_path, talks(40, **others))
    assert "`assistant`, `gpt`, `human`, `user`" in caught.value.advice


def test_warnings_count_all_rows(tmp_path: Path) -> None:
    rows = [
        {"prompt": "q", "chosen": "x" if n % 4 else " ", "rejected": "x" if n % 5 else "y"} for n in range(40)
    ]
    found = [message for message, _ in row_warnings(prepare(tmp_path, rows, "dpo").statistics)]
    assert found == [
        "10 of 40 rows have an empty `chosen`: the model learns to generate nothing",
        "`chosen` and `rejected` are equal in 24 of 40 rows",
    ]


def test_text_becomes_messages_and_unused_columns_go(tmp_path: Path) -> None:
    rows = [{"prompt": str(n), "completion": str(n + 1), "n": n, "tools": None} for n in range(20)]
    data = prepare(tmp_path, rows).data
    assert data.to_list() == [
        {
            "prompt": [{"role": "user", "content": row["prompt"]}],
            "completion": [{"role": "assistant", "content": row["completion"]}],
        }
        for row in rows
    ]


def test_template_arguments_of_the_stage_are_those_of_rows_without_them(tmp_path: Path) -> None:
    rows = [
        {**row, "chat_template_kwargs": '{"style": 2}' if n % 2 else None} for n, row in enumerate(talks(20))
    ]
    data = prepare(tmp_path, rows, kwargs={"style": 1}).data
    assert [row["chat_template_kwargs"]["style"] for row in data] == [1, 2] * 10


@pytest.mark.parametrize("count", [1, 2, 41])
def test_labeled_completions_have_the_order_of_a_list(count: int, tmp_path: Path) -> None:
    rows = [{"prompt": f"{n}", "chosen": f"{n} good", "rejected": f"{n} bad"} for n in range(count)]
    prepared = shuffle_rows(prepare(tmp_path, rows, "kto", pairs_apart=True), seed=7)
    found = [(row["completion"][0]["content"], row["label"]) for row in prepared.data]
    assert found == [(row["completion"], row["label"]) for row in label_rows(rows, seed=7)]


def test_other_columns_keep_their_types(tmp_path: Path) -> None:
    rows = [{"prompt": "q", "answer": n, "x": None if n % 2 else 0.5, "many": [n, n]} for n in range(20)]
    data = prepare(tmp_path, rows, "grpo", more=("answer", "x", "many", "absent")).data
    names = ("answer", "x", "many")
    assert [[row[name] for name in names] for row in data] == [[row[name] for name in names] for row in rows]
