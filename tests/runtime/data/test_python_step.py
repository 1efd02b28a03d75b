"""The data step `python`: rows through a function of the user."""

import math
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.data.build_datasets import BuiltDatasets, compile_datasets

from posttrain.runtime.errors import StepError

ROWS = [{"q": f"row {n}", "n": n} for n in range(5)]
COLUMNS = {"q": "text", "n": "integer"}


def build(
    folder: Path,
    program: str,
    rows: list[dict[str, Any]] | None = None,
    before: tuple[Any, ...] = (),
    **step: Any,
) -> BuiltDatasets:
    made = {"python": {"call": "rows.py:f", "columns": COLUMNS, **step}}
    datasets = {"it": {"from": {"rows": rows or ROWS}, "steps": [*before, made]}}
    return BuiltDatasets(folder, datasets, {"rows.py": program.encode()})


def failure(folder: Path, program: str, **step: Any) -> StepError:
    with pytest.raises(StepError) as caught:
        build(folder, program, **step)
    return caught.value


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("def f(row): return {**row, 'n': row['n'] * 2}", [0, 2, 4, 6, 8]),
        ("def f(row): return row if row['n'] % 2 else None", [1, 3]),
        ("def f(row): return [row] * row['n']", [1, 2, 2, 3, 3, 3, 4, 4, 4, 4]),
        (
            "def f(row):\n  yield row\n  yield {'q': 'new', 'n': None}",
            [0, None, 1, None, 2, None, 3, None, 4, None],
        ),
    ],
)
def test_a_function_maps_drops_and_expands_rows(tmp_path: Path, program: str, expected: list[int]) -> None:
    found = build(tmp_path, program)
    assert [row["n"] for row in found.rows("it")] == expected
    assert found.columns("it") == COLUMNS


def test_batches_have_rows_of_one_part(tmp_path: Path) -> None:
    program = "def f(rows): return [{'q': str(len(rows)), 'n': sum(row['n'] for row in rows)}]"
    found = build(tmp_path, program, before=({"split": {"test": 2}},), batched=True, batch_size=2)
    assert [row["q"] for row in found.rows("it", "train")] == ["2", "1"]
    assert [row["q"] for row in found.rows("it", "test")] == ["2"]


def test_parts_stay_apart(tmp_path: Path) -> None:
    found = build(tmp_path, "def f(row): return [row, row]", before=({"split": {"test": 2}},))
    test, train = ([row["n"] for row in found.rows("it", part)] for part in ("test", "train"))
    assert (len(test), len(train)) == (4, 6)
    assert not set(test) & set(train)


def test_every_type_of_column_comes_back(tmp_path: Path) -> None:
    columns = {"t": "text", "i": "integer", "x": "number", "b": "boolean", "l": "list<text>", "a": "any"}
    values = {"t": "é\u2028\x00\n", "i": -(2**62), "x": 0.1, "b": True, "l": ["a", None], "a": '{"k": [1]}'}
    program = f"import json\ndef f(row):\n  return {{**{values!r}, 'a': json.loads({values['a']!r})}}"
    found = build(tmp_path, program, columns=columns)
    assert found.columns("it") == columns
    row = found.rows("it")[0]
    assert row == values


def test_it_gets_arguments_a_seed_and_only_the_columns_that_it_reads(tmp_path: Path) -> None:
    program = (
        "import random\n"
        "def f(row, low, seed):\n"
        "  return {'q': ','.join(row), 'n': low + seed % 1000 * 1000 + random.randrange(1000)}"
    )
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    step: dict[str, Any] = {"reads": ["n"], "with": {"low": 1_000_000}}
    rows = [build(tmp_path / name, program, **step).rows("it") for name in ("a", "b")]
    assert rows[0] == rows[1]
    assert {row["q"] for row in rows[0]} == {"n"}
    assert len({row["n"] for row in rows[0]}) == 5
    assert all(row["n"] >= 1_000_000 for row in rows[0])


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("{'q': row['q']}", "a row without the column `n`"),
        ("{**row, 'z': 1}", "the column `z`, which is not among the `columns`"),
        ("{**row, 'n': '1'}", "'1' in the column `n` of type integer"),
        ("{**row, 'n': True}", "True in the column `n` of type integer"),
        ("{**row, 'n': 1.0}", "1.0 in the column `n` of type integer"),
        ("{**row, 'n': 2**63}", "which has more than 64 bits"),
        ("{**row, 'n': float('nan')}", "nan, which is not finite"),
        ("{**row, 'q': 5}", "5 in the column `q` of type text"),
        ("{**row, 'q': chr(0xd800)}", "text with characters that UTF-8 cannot encode"),
        ("{**row, 'q': b'x'}", "not JSON serializable"),
        ("row['q']", "it returned str, and must return"),
        ("7", "it returned int, and must return"),
        ("[row, 7]", "it returned int as a row"),
        ("row['missing']", "KeyError: 'missing'"),
        ("exit(3)", "SystemExit: 3"),
        ("__import__('os')._exit(3)", "the process exited with status 3"),
        ("__import__('os').kill(__import__('os').getpid(), 9)", "the process exited with status -9"),
        ("__import__('os').fork() and row", None),
        ("input()", "EOFError"),
        ("open(0).read() or 1 / 0", "ZeroDivisionError"),
    ],
)
def test_an_error_names_row_file_and_line(tmp_path: Path, returned: str, message: str | None) -> None:
    program = f"\n\ndef f(row):\n  if row['n'] != 3: return row\n  return {returned}\n"
    if message is None:  # the parent's value counts
        assert len(build(tmp_path, program).rows("it")) == 5
        return
    error = failure(tmp_path, program)
    assert str(error).startswith("row 4: `rows.py:f`"), str(error)
    assert message in str(error)
    place = "rows.py:5" if "Error" in message or "SystemExit" in message else "rows.py:3"
    assert str(error).endswith(f"({place})"), str(error)
    assert "q = 'row 3'" in error.details


def test_a_call_that_hangs_is_killed(tmp_path: Path) -> None:
    program = "import time\ndef f(row):\n  time.sleep(600 if row['n'] == 2 else 0)\n  return row"
    error = failure(tmp_path, program, timeout_seconds=0.5)
    assert str(error) == "row 3: `rows.py:f` took longer than 0.5 s (rows.py:2)"


def test_prints_and_changes_of_the_argument_do_not_matter(tmp_path: Path) -> None:
    program = (
        "import os\n"
        "def f(row):\n"
        "  print('{}'); os.write(1, b'x\\n')\n"
        "  old = {**row}; row.clear()\n"
        "  return old"
    )
    assert [row["n"] for row in build(tmp_path, program).rows("it")] == [0, 1, 2, 3, 4]


def test_a_function_that_returns_nothing_fails(tmp_path: Path) -> None:
    error = failure(tmp_path, "def f(row): row['n'] += 1")
    assert str(error) == "`rows.py:f` returned no row for any of 5 rows"
    assert error.advice == "return the row: None drops it"


def test_a_batch_without_a_result_names_its_rows(tmp_path: Path) -> None:
    error = failure(tmp_path, "def f(rows): rows.clear()", batched=True, batch_size=3)
    assert str(error).startswith("rows 1 to 3: `rows.py:f`: TypeError: it returned NoneType")


def test_a_file_that_does_not_load_names_its_line(tmp_path: Path) -> None:
    assert (
        str(failure(tmp_path, "def f(row): return row\n1 / 0\n"))
        == "rows.py:2: ZeroDivisionError: division by zero"
    )


def test_large_rows_and_numpy_values_pass(tmp_path: Path) -> None:
    program = (
        "import numpy\n"
        "def f(row): return {'q': 'x' * 10_000_000, 'n': numpy.int64(row['n']), 'l': list(numpy.ones(2))}"
    )
    found = build(tmp_path, program, columns={**COLUMNS, "l": "list<number>"})
    assert [(len(row["q"]), row["n"], row["l"]) for row in found.rows("it")] == [
        (10_000_000, n, [1.0, 1.0]) for n in range(5)
    ]


def test_messages_go_in_and_out(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    program = "def f(row): return {'messages': row['messages'][::-1]}"
    found = build(tmp_path, program, rows=[{"messages": turns}], columns={"messages": "messages"})
    assert found.rows("it") == [{"messages": turns[::-1]}]


def compiled(**step: Any) -> list[str]:
    made = {"call": "rows.py:f", "columns": COLUMNS, **step}
    steps = [{"python": made}, {"where": "n > 1"}]
    found = compile_datasets(
        {"it": {"from": {"rows": ROWS}, "steps": steps}}, {"rows.py": b"def f(row): return row"}
    )
    return [f"{one.code} {one.message}" for one in found.diagnostics]


def test_the_columns_after_the_step_are_known() -> None:
    assert compiled() == []
    (found,) = compiled(columns={"q": "text"})
    assert "unknown column `n`" in found


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"reads": ["m"]}, "missing column `m` in `reads`"),
        ({"call": "other.py:f"}, "there is no file `other.py`"),
        ({"call": "rows.py"}, "`rows.py` does not match the pattern"),
        ({"batch_size": 10}, "batch_size has no effect without `batched: true`"),
        ({"columns": {"n": "int"}}, "is not a column type"),
    ],
)
def test_wrong_values_are_reported(step: dict[str, Any], message: str) -> None:
    found = compiled(**step)
    assert len(found) == 1, found
    assert message in found[0]


def test_the_file_and_its_modules_are_in_the_key() -> None:
    def key(*contents: bytes) -> str:
        made = {"python": {"call": "rows.py:f", "columns": COLUMNS, "modules": ["more.py"]}}
        files: dict[str, bytes] = dict(zip(("rows.py", "more.py"), contents, strict=True))
        plan = compile_datasets({"it": {"from": {"rows": ROWS}, "steps": [made]}}, files).plan
        assert plan is not None
        return next(step.key for step in plan.steps if step.kind == "data")

    assert key(b"a", b"b") == key(b"a", b"b")
    assert len({key(b"a", b"b"), key(b"c", b"b"), key(b"a", b"c")}) == 3


def test_nan_in_a_row_reaches_the_function(tmp_path: Path) -> None:
    before = ({"derive": {"x": "'nan'::DOUBLE"}},)
    program = "def f(row): return {'q': repr(row['x']), 'n': 1}"
    found = build(tmp_path, program, before=before)
    assert found.rows("it")[0]["q"] == repr(math.nan)
