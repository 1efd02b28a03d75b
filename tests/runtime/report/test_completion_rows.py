"""The completions of an eval in the report: failures and changes first, compared with an earlier eval."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from posttrain.runtime.duckdb_files import write_parquet
from posttrain.runtime.report.completion_rows import CompletionFile, read_completions
from posttrain.runtime.report.sample_browser import choose_samples
from posttrain.runtime.report.sample_correctness import CorrectnessRule

RULE = CorrectnessRule("right", 1.0)
Row = tuple[int, str, float | bool | None]


def write(path: Path, rows: Sequence[Row], model: str = "sft", kind: str = "DOUBLE", **columns: str) -> Path:
    """Rows of item, completion and value of the node `right`; `columns` are SQL expressions."""
    with duckdb.connect() as connection:
        connection.execute(f'CREATE TABLE t (item BIGINT, completion VARCHAR, "node:right" {kind})')
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", list(rows))
        texts = {"model": f"'{model}'", "prompt": "concat(item, '+1=')", **columns}
        more = "".join(f', {sql} AS "{name}"' for name, sql in texts.items())
        query = f"SELECT *{more} FROM t"
        write_parquet(connection, query, [], path)
    return path


def read(path: Path, earlier: Path | None = None, rule: CorrectnessRule | None = RULE, **fields: Any) -> Any:
    before = None if earlier is None else CompletionFile("before", earlier, rule)
    return read_completions(CompletionFile("after", path, rule), before, fields.get("secrets", ()))


def shown(found: Any) -> list[tuple[int, str | None, str | None]]:
    return [(one.item, one.outcome, one.before and one.before.outcome) for one in found.samples]


def test_regressions_come_first_then_other_failures_then_changes(tmp_path: Path) -> None:
    now = write(
        tmp_path / "now *.parquet",
        [(0, "a", 3.0), (1, "b", 0.0), (2, "c", None), (3, "d", 3.0), (4, "e", 0.9)],
    )
    old = write(
        tmp_path / "old.parquet", [(0, "x", 3.0), (1, "y", 0.0), (2, "z", 3.0), (3, "u", 0.0), (4, "v", 1.0)]
    )
    found = read(now, old)
    assert shown(found) == [
        (4, "wrong", "right"),
        (1, "wrong", "wrong"),
        (2, "unscored", "right"),
        (3, "right", "wrong"),
        (0, "right", "right"),
    ]
    assert (found.counts, found.changed, found.total) == ({"right": 2, "wrong": 2, "unscored": 1}, 3, 5)
    assert [one.before.completion for one in found.samples] == ["v", "y", "z", "u", "x"]
    assert {one.before.stage for one in found.samples} == {"before"}


def test_several_completions_of_a_row_are_compared_in_order(tmp_path: Path) -> None:
    now = write(tmp_path / "now.parquet", [(0, "a", 0.0), (0, "b", 3.0), (1, "c", 3.0), (1, "d", 0.0)])
    old = write(tmp_path / "old.parquet", [(0, "e", 3.0), (0, "f", 3.0), (1, "g", 3.0)])
    found = read(now, old)
    assert {one.completion: one.before and one.before.completion for one in found.samples} == {
        "a": "e",
        "b": "f",
        "c": "g",
        "d": None,
    }
    assert len({one.name for one in found.samples}) == 4
    assert found.changed == 1


def test_rows_with_other_prompts_are_not_compared(tmp_path: Path) -> None:
    now = write(tmp_path / "now.parquet", [(0, "a", 0.0)])
    old = write(tmp_path / "old.parquet", [(0, "b", 3.0)], prompt="'another'")
    assert shown(read(now, old)) == [(0, "wrong", None)]


def test_the_first_of_several_models_is_the_earlier_one(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        query = (
            "SELECT model, 'p' AS prompt, 0 AS item, model AS completion, model = 'a' AS \"node:right\""
            " FROM (VALUES ('b'), ('a'), ('c')) AS t(model)"
        )
        write_parquet(connection, query, [], tmp_path / "now.parquet")
    found = read(tmp_path / "now.parquet")
    assert [(one.model, one.outcome, one.before and one.before.model) for one in found.samples] == [
        ("b", "wrong", None),
        ("c", "wrong", "b"),
        ("a", "right", "b"),
    ]
    earlier = write(tmp_path / "old.parquet", [(0, "x", 3.0)], prompt="'p'")
    assert {one.before for one in read(tmp_path / "now.parquet", earlier).samples} == {None}


@pytest.mark.parametrize(
    ("kind", "value", "outcome"),
    [
        ("BOOLEAN", True, "right"),
        ("BOOLEAN", False, "wrong"),
        ("DOUBLE", 1.0, "right"),
        ("DOUBLE", float("nan"), "unscored"),
        ("DOUBLE", float("inf"), "unscored"),
        ("VARCHAR", "word", "unscored"),
    ],
)
def test_the_outcome_is_that_of_other_samples(tmp_path: Path, kind: str, value: Any, outcome: str) -> None:
    (found,) = read(write(tmp_path / "now.parquet", [(0, "a", value)], kind=kind)).samples
    assert found.outcome == outcome


def test_without_a_rule_the_rows_have_no_outcome(tmp_path: Path) -> None:
    rows: list[Row] = [(n, "a", 0.0) for n in range(1000)]
    for rule in (None, CorrectnessRule("other", 0.5)):
        found = read(write(tmp_path / "now.parquet", rows), rule=rule)
        assert (found.counts, found.total) == ({}, 1000)
        items = [one.item for one in found.samples]
        assert 50 <= len(items) <= 60
        assert items[0] == 0
        assert items[-1] > 950


def test_of_many_rows_no_failure_is_left_out(tmp_path: Path) -> None:
    rows: list[Row] = [(n, "a", 0.0 if n % 100 == 99 else 3.0) for n in range(10_000)]
    found = read(write(tmp_path / "now.parquet", rows))
    failures = [one.item for one in found.samples if one.outcome == "wrong"]
    assert failures == [n for n in range(10_000) if n % 100 == 99]
    assert found.counts == {"right": 9_900, "wrong": 100}
    assert 50 <= len(found.samples) - len(failures) <= 60


def test_no_kind_of_failure_hides_another(tmp_path: Path) -> None:
    rows = [(item, "x", 0.0) for item in range(2000)] + [(5000 + item, "y", None) for item in range(7)]
    found = read(write(tmp_path / "now.parquet", rows)).samples
    assert [one.outcome for one in found] == ["wrong"] * 593 + ["unscored"] * 7
    assert [one.item for one in found[:593]] == list(range(593))
    cards = choose_samples(found, 100)
    assert [one.outcome for one in cards] == ["wrong"] * 93 + ["unscored"] * 7


def test_a_row_has_its_reference_its_nodes_and_their_reasons(tmp_path: Path) -> None:
    columns = {
        "answer": "'secret-word'",
        "topic": "NULL",
        "node:right.when": "false",
        "node:is unscored": "false",
        "reason:right": "'no number in secret-word'",
        "tokens": "7",
    }
    path = write(tmp_path / "now.parquet", [(0, "a", 0.0)], **columns)
    (found,) = read(path, secrets=("secret-word",)).samples
    assert found.reference == {"answer": "[secret]"}
    assert dict(found.values) == {"right": 0.0}
    assert found.reasons == {"right": "no number in [secret]"}


def test_messages_become_turns(tmp_path: Path) -> None:
    turns = "[{'role': 'assistant', 'content': 'one'}, {'role': 'user', 'content': 'two'}]"
    (found,) = read(write(tmp_path / "now.parquet", [(0, "a", 0.0)], transcript=turns)).samples
    assert [(turn.role, turn.text) for turn in found.turns] == [("assistant", "one"), ("user", "two")]


def test_a_file_without_items_is_not_used(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        write_parquet(connection, "SELECT 'x' AS task, 1 AS acc", [], tmp_path / "benchmark.parquet")
    assert read(tmp_path / "benchmark.parquet") is None


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "now.parquet"
    path.write_bytes(b"PAR1 damaged")
    with pytest.raises(duckdb.Error, match=r"now\.parquet"):
        read(path)


def test_columns_of_any_name_are_shown_with_a_sample(tmp_path: Path) -> None:
    names = ("outcome", "was", "number", "model_number", "earlier_row", "place", "row")
    columns = {name: f"'{name} of the row'" for name in names}
    now = write(tmp_path / "now.parquet", [(0, "a", 0.0)], **columns)
    (sample,) = read(now, write(tmp_path / "old.parquet", [(0, "b", 3.0)], **columns)).samples
    assert sample.reference == {name: f"{name} of the row" for name in names}
    assert (sample.outcome, sample.before.outcome, sample.name) == ("wrong", "right", "1-0-1")
