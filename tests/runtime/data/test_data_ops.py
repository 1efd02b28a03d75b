"""The data ops: their effect on rows and columns, and their checks in the compiler."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.data.build_datasets import BuiltDatasets, build_dataset, compile_datasets

from posttrain.runtime.data.decontaminate import contains_shingle
from posttrain.runtime.data.near_duplicates import find_near_duplicates, jaccard_similarity, rows_per_band
from posttrain.runtime.data.shingles import shingles, split_words
from posttrain.runtime.errors import StepError

WORDS = st.lists(st.sampled_from("abcdefgh"), max_size=14).map(" ".join)


def diagnostic_codes(steps: list[Any], rows: list[dict[str, Any]], **others: Any) -> list[str]:
    found = compile_datasets({**others, "it": {"from": {"rows": rows}, "steps": steps}})
    return [diagnostic.code for diagnostic in found.diagnostics]


FolderFactory = Callable[[], Path]


@pytest.fixture(scope="session")
def make_folder(tmp_path_factory: pytest.TempPathFactory) -> FolderFactory:
    """A function that creates a new folder on each call."""
    return lambda: tmp_path_factory.mktemp("dataset")


def test_chat_makes_turns_and_leaves_out_those_without_words(tmp_path: Path):
    turns = [{"system": {"text": "It's 1 + 1"}}, {"user": "q"}, {"assistant": "a"}]
    found = build_dataset(
        tmp_path,
        {"chat": {"turns": turns, "output_column": "q"}},
        rows=[{"q": "why?", "a": "so"}, {"q": "hm", "a": None}],
    )
    system = {"role": "system", "content": "It's 1 + 1"}
    assert [row["q"] for row in found.rows("it")] == [
        [system, {"role": "user", "content": "why?"}, {"role": "assistant", "content": "so"}],
        [system, {"role": "user", "content": "hm"}],
    ]
    assert found.columns("it") == {"a": "text", "q": "messages"}


def test_conversations_become_messages(tmp_path: Path, make_folder: FolderFactory):
    rows = [
        {"conversations": [{"from": "human", "value": "a", "more": 1}, {"from": "gpt", "value": "b"}]},
        {"conversations": []},
    ]
    convert = {"conversations": {"ignored_keys": ["more"]}}
    found = build_dataset(tmp_path, convert, {"select": "messages"}, rows=rows)
    assert found.rows("it") == [
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
        {"messages": []},
    ]
    other = [{"talk": [{"who": "Q", "said it": "a"}]}]
    step = {
        "conversations": {
            "column": "talk",
            "role_key": "who",
            "content_key": "said it",
            "role_names": {"Q": "user"},
        }
    }
    assert build_dataset(make_folder(), step, rows=other).rows("it")[0]["messages"] == [
        {"role": "user", "content": "a"}
    ]


@pytest.mark.parametrize("turn", [{"from": "robot", "value": "a"}, {"value": "a"}, {"from": "gpt"}])
def test_a_turn_of_an_unknown_role_ends_the_step(tmp_path: Path, turn: dict[str, str]):
    with pytest.raises(StepError, match="row 2: cannot convert a turn of `conversations`: "):
        build_dataset(
            tmp_path,
            {"conversations": {}},
            rows=[{"conversations": [{"from": "gpt", "value": "x"}]}, {"conversations": [turn]}],
        )


@settings(max_examples=15)
@given(
    st.lists(st.none() | WORDS, min_size=1, max_size=20),
    st.integers(1, 100),
    st.sampled_from(["characters", "words"]),
)
def test_a_percentile_keeps_at_least_its_share_and_the_shortest(
    make_folder: FolderFactory, texts: list[str | None], percentile: int, unit: str
):
    rows = [
        {"id": n, "a": text, "m": [{"role": "user", "content": text or ""}]} for n, text in enumerate(texts)
    ]
    step = {"length_percentile": {"columns": ["a", "m"], "percentile": percentile, "unit": unit}}
    typed = {"rows": rows, "columns": {"id": "integer", "a": "text", "m": "messages"}}
    found = BuiltDatasets(make_folder(), {"it": {"from": {"rows": typed}, "steps": [step]}}).rows("it")
    lengths = [
        2 * (len(text) if unit == "characters" else len(text.split())) if text else 0 for text in texts
    ]
    remaining = [row["id"] for row in found]
    limit = sorted(lengths)[max(1, -(-percentile * len(texts) // 100)) - 1]
    assert remaining == [n for n, length in enumerate(lengths) if length <= limit]
    assert len(remaining) >= percentile * len(texts) / 100


def test_max_length_keeps_what_is_short_enough(tmp_path: Path):
    rows = [{"a": "one two", "b": "three"}, {"a": "one two", "b": "three four"}, {"a": None, "b": "x"}]
    found = build_dataset(
        tmp_path, {"max_length": {"columns": ["a", "b"], "max_length": 3, "unit": "words"}}, rows=rows
    )
    assert [row["b"] for row in found.rows("it")] == ["three", "x"]


@given(st.lists(WORDS, max_size=12), st.sampled_from([0.5, 0.8, 1.0]), st.integers(0, 5))
def test_what_goes_is_like_something_that_stays_and_equal_texts_go(
    texts: list[str], similarity: float, seed: int
):
    sets = [shingles(text, 2) for text in texts]
    dropped = find_near_duplicates(iter(sets), similarity, seed)
    originals = [index for index in range(len(texts)) if index not in dropped]
    for index in dropped:
        assert any(
            exact_jaccard(sets[index], sets[other]) >= similarity for other in originals if other < index
        )
    remaining = [frozenset(sets[index]) for index in originals if sets[index]]
    assert len(remaining) == len(set(remaining))
    assert all(sets[index] for index in dropped)


def exact_jaccard(left: set[int], right: set[int]) -> float:
    return len(left & right) / len(left | right)


def test_overlap_is_the_share_in_common():
    left, right = np.array([1, 2, 3], dtype=np.uint64), np.array([2, 3, 4], dtype=np.uint64)
    assert jaccard_similarity(left, right) == 0.5


@pytest.mark.parametrize("similarity", [0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0])
def test_bands_miss_a_pair_that_is_just_similar_at_most_once_in_ten_thousand(similarity: float):
    width = rows_per_band(similarity)
    assert (1 - similarity**width) ** (128 // width) <= 1e-4 or width == 1


def test_signatures_agree_as_often_as_sets_overlap():
    from posttrain.runtime.data.near_duplicates import _make_minhash

    signer = _make_minhash(1, 7)
    draw = np.random.default_rng(3)
    errors: list[float] = []
    for _ in range(60):
        whole = draw.integers(0, 2**64, size=90, dtype=np.uint64)
        left, right = signer(whole[:60]), signer(whole[30:])  # a third in common
        errors.append(sum(a == b for a, b in zip(left, right, strict=True)) / 128 - 1 / 3)
    assert abs(float(np.mean(errors))) < 0.02
    assert float(np.std(errors)) == pytest.approx((1 / 3 * 2 / 3 / 128) ** 0.5, rel=0.5)


def test_near_duplicates_are_found_among_many_rows(tmp_path: Path):
    draw = np.random.default_rng(1)
    base = [" ".join(f"w{n}" for n in draw.integers(0, 4000, size=60)) for _ in range(150)]
    changed = [text.replace(text.split()[30], "other") for text in base[:50]]
    rows = [{"id": n, "a": text} for n, text in enumerate([*base, *changed])]
    found = build_dataset(
        tmp_path, {"near_duplicates": {"columns": "a", "similarity_threshold": 0.7}}, rows=rows
    )
    assert [row["id"] for row in found.rows("it")] == list(range(150))


@given(WORDS, WORDS, st.integers(1, 6))
def test_a_text_holds_a_piece_when_a_run_of_words_is_in_both(text: str, other: str, size: int):
    run = min(size, len(split_words(other)))
    pieces = {run: shingles(other, run)} if run else {}
    runs = (
        {tuple(split_words(other)[at : at + run]) for at in range(len(split_words(other)) - run + 1)}
        if run
        else set()
    )
    mine = {tuple(split_words(text)[at : at + run]) for at in range(len(split_words(text)) - run + 1)}
    assert contains_shingle(text, pieces) == bool(runs & mine)


def test_rows_that_hold_a_piece_of_a_test_set_go(tmp_path: Path, make_folder: FolderFactory):
    rows = [
        {"q": "Well: what is the SUM of two and two, friend?"},
        {"q": "what is the sum"},
        {"q": "short one"},
        {"q": "say Short one!"},
    ]
    bench = {
        "from": {"rows": [{"ask": "What is the sum of two and two"}, {"ask": "short one"}, {"ask": "kept"}]},
        "steps": [{"split": {"test": 2}}],
    }
    step = {"decontaminate": {"columns": "q", "against": "bench", "against_columns": "ask", "ngram_size": 5}}
    assert [row["q"] for row in build_dataset(tmp_path, step, rows=rows, bench=bench).rows("it")] == [
        "what is the sum"
    ]
    part = {"decontaminate": {**step["decontaminate"], "against": "bench.test"}}
    found = build_dataset(make_folder(), part, rows=rows, bench=bench)
    assert found.plan.step("datasets.it").inputs["other:bench.test"].part == "test"
    in_test = {row["ask"] for row in found.rows("bench", "test")}
    expected = [
        row["q"]
        for row in rows
        if not (
            (row["q"].startswith("Well") and "What is the sum of two and two" in in_test)
            or ("hort one" in row["q"] and "short one" in in_test)
        )
    ]
    assert [row["q"] for row in found.rows("it")] == expected


def test_pairs_become_single_answers_and_back(tmp_path: Path, make_folder: FolderFactory):
    rows = [{"prompt": f"p{n}", "chosen": f"good {n}", "rejected": f"bad {n}"} for n in range(3)]
    found = build_dataset(tmp_path, {"unpair": {}}, rows=rows)
    assert found.columns("it") == {"prompt": "text", "completion": "text", "label": "boolean"}
    assert found.rows("it")[:2] == [
        {"prompt": "p0", "completion": "good 0", "label": True},
        {"prompt": "p0", "completion": "bad 0", "label": False},
    ]
    assert (
        build_dataset(make_folder(), {"unpair": {}}, {"pair": {"score": "label"}}, rows=rows).rows("it")
        == rows
    )
    split = build_dataset(make_folder(), {"unpair": {}}, {"split": {"test": 5}}, rows=rows)
    assert len(split.rows("it", "test")) == 5
    assert diagnostic_codes([{"unpair": {}}, {"split": {"test": 6}}], rows) == [
        "PT0406"
    ]  # the compiler knows that there are 6 rows


@settings(max_examples=15)
@given(
    st.lists(st.tuples(st.sampled_from("pq"), st.none() | st.integers(0, 3)), min_size=1, max_size=10),
    st.sampled_from([0.0, 1.0, 2.0]),
)
def test_a_pair_is_the_best_and_the_worst_of_a_prompt(
    make_folder: FolderFactory, answers: list[tuple[str, int | None]], margin: float
):
    rows = [{"prompt": p, "completion": f"{n}", "score": score} for n, (p, score) in enumerate(answers)]
    if all(score is None for _, score in answers):
        return
    found = {
        row["prompt"]: row
        for row in build_dataset(make_folder(), {"pair": {"min_margin": margin}}, rows=rows).rows("it")
    }
    for prompt in "pq":
        scored = [(score, -n) for n, (p, score) in enumerate(answers) if p == prompt and score is not None]
        pairs = bool(scored) and max(scored)[0] - min(scored)[0] >= max(margin, 1e-9)
        assert (prompt in found) == pairs
        if pairs:
            worst = min(scored, key=lambda one: (one[0], -one[1]))
            assert found[prompt] == {
                "prompt": prompt,
                "chosen": str(-max(scored)[1]),
                "rejected": str(-worst[1]),
            }


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"chat": {"turns": [{"user": "b"}]}}, "missing column `b`; the columns are "),
        ({"chat": {"turns": [{"user": "n"}]}}, "`n` has type integer; expected text"),
        (
            {"chat": {"turns": [{"robot": "a"}]}},
            "a turn is {ROLE: COLUMN}, with one of the roles system, developer, user, assistant, tool",
        ),
        (
            {"chat": {"turns": [{"user": {"words": "a"}}]}},
            "the content of a turn is a column or {text: TEXT}",
        ),
        ({"conversations": {"column": "a"}}, "`a` has type text; expected any or list<any>"),
        (
            {"max_length": {"columns": "n", "max_length": 1}},
            "`n` has type integer; expected text or messages",
        ),
        ({"near_duplicates": {"columns": ["a", "b"]}}, "missing column `b`; the columns are "),
        ({"unpair": {"chosen": "a", "rejected": "m"}}, "`a` and `m` have different types"),
        ({"unpair": {"chosen": "a", "rejected": "a", "completion": "n"}}, "a column `n` already exists"),
        (
            {"pair": {"group_by": "a", "completion": "a", "score": "a"}},
            "`a` has type text; expected number or integer or boolean",
        ),
        ({"decontaminate": {"columns": "a", "against": "other"}}, "in `other`: missing column `a`; "),
        (
            {"decontaminate": {"columns": "a", "against_columns": "x", "against": "other.test"}},
            "the data is not split",
        ),
        ({"decontaminate": {"columns": "a", "against": "othr"}}, "unknown name `othr`"),
    ],
)
def test_a_step_that_does_not_fit_its_columns_is_told_when_the_recipe_is_compiled(step: Any, message: str):
    rows = [{"a": "x", "n": 1, "m": [{"role": "user", "content": "x"}]}]
    other = {"from": {"rows": [{"x": "y"}]}}
    found = compile_datasets({"other": other, "it": {"from": {"rows": rows}, "steps": [step]}})
    texts = [f"{diagnostic.message} {diagnostic.help}" for diagnostic in found.diagnostics]
    assert any(message in text for text in texts), texts


def test_steps_are_seeded_by_the_recipe_and_say_what_they_read(make_folder: FolderFactory):
    found = BuiltDatasets(
        make_folder(),
        {"it": {"from": {"rows": [{"a": "x y"}]}, "steps": [{"near_duplicates": {"columns": "a"}}]}},
    )
    (operation,) = found.plan.step("datasets.it").params["operations"]
    assert operation["params"] == {"columns": ["a"], "similarity_threshold": 0.8, "ngram_size": 5}
    assert operation["seed"] > 0
    assert found.rows("it") == [{"a": "x y"}]
