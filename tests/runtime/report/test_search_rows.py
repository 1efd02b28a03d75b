"""The search of the report covers completions without a card, up to a limit that the page states."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.report.conftest import Browser
from tests.runtime.report.test_completion_rows import read, write

from posttrain.runtime.report.page import render_page
from posttrain.runtime.report.run_record import CompletionSamples, Sample, SearchRow
from posttrain.runtime.report.sample_browser import searched_evals
from posttrain.runtime.report.search_results import MAX_SEARCH_CHARACTERS, limit_rows
from posttrain.runtime.report.search_rows import MAX_SEARCH_ROWS


def test_all_rows_without_a_card_are_read_in_short(tmp_path: Path) -> None:
    rows: Sequence[Any] = [(n, f"text {n}", 0.0 if n < 700 else 3.0) for n in range(1000)]
    found = read(write(tmp_path / "now.parquet", rows, answer="concat('answer ', item)"))
    cards = {one.item for one in found.samples}
    others = {one.item for one in found.search_rows}
    assert cards | others == set(range(1000))
    assert not cards & others
    assert len(found.samples) + len(found.search_rows) == found.total
    first = found.search_rows[0]
    assert (first.outcome, first.prompt) == ("wrong", f"{first.item}+1=")
    assert first.completion == f"text {first.item}"
    assert json.loads(first.reference) == {"answer": f"answer {first.item}"}


def test_texts_are_cut_after_secrets_are_replaced(tmp_path: Path) -> None:
    rows: Sequence[Any] = [(n, "x" * 236 + "secret-word", 3.0) for n in range(200)]
    found = read(write(tmp_path / "now.parquet", rows), secrets=("secret-word",))
    texts = {one.completion for one in found.search_rows}
    assert texts == {"x" * 236 + "[sec"}


def test_prompts_that_are_messages_are_found_by_their_text(tmp_path: Path) -> None:
    prompt = "[{'role': 'user', 'content': concat('question ', item)}]"
    rows: Sequence[Any] = [(n, "a", 3.0) for n in range(200)]
    found = read(write(tmp_path / "now.parquet", rows, prompt=prompt))
    assert all(f"question {one.item}" in one.prompt for one in found.search_rows)


def eval_record(make: Any, id: str, rows: int, total: int, length: int = 10) -> Any:
    (record,) = make.run(make.step(id, "eval")).steps
    card = Sample(step=0, prompt="card", completion="c", values={}, name="1-0-1", item=0)
    short = tuple(
        SearchRow(
            item=n,
            model="m",
            outcome="right",
            prompt=f"prompt {n} <b>" + "p" * length,
            completion=f"</script>{n}",
            reference="",
        )
        for n in range(1, rows + 1)
    )
    found = CompletionSamples(
        samples=(card,), counts={"right": total}, changed=0, total=total, search_rows=short
    )
    return replace(record, completions=found)


def test_the_page_says_how_many_rows_are_left_out(make: Any) -> None:
    whole, part = eval_record(make, "whole", 20, 21), eval_record(make, "part", MAX_SEARCH_ROWS, 9_000_000)
    page = render_page(make.run(whole, part))
    assert "1 card and the start of 20 more completions of whole" in page
    part_words = "1 card and the start of 5,000 more completions of part (8,994,999 are only in completions"
    assert part_words in page
    data = re.search(r'id="search-data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert len(json.loads(data[1])) == 5020


def test_samples_that_lose_their_card_to_other_stages_are_searched(make: Any) -> None:
    cards = [
        Sample(step=0, prompt=f"p{n}", completion="c", values={}, name=str(n), item=n, outcome="wrong")
        for n in range(400)
    ]
    counts = CompletionSamples(samples=tuple(cards), counts={"wrong": 400}, changed=0, total=400)
    run = make.run(*(replace(eval_record(make, id, 0, 1), completions=counts) for id in ("a", "b")))
    for one in searched_evals(run):
        assert (one.cards, len(one.rows)) == (300, 100)
    assert "only in completions" not in render_page(run)


def test_the_evals_share_the_limit_of_the_page(make: Any) -> None:
    records = [eval_record(make, f"e{n}", 3000, 3001, length=1000) for n in range(4)]
    kept = limit_rows(searched_evals(make.run(*records)))
    sizes = [sum(len(row.prompt) + len(row.completion) for row in one.rows) for one in kept]
    assert all(0.9 * MAX_SEARCH_CHARACTERS / 4 < size <= MAX_SEARCH_CHARACTERS / 4 for size in sizes)


@pytest.mark.browser
def test_the_search_finds_rows_without_a_card(browser: Browser, make: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(render_page(make.run(eval_record(make, "check", 100, 101))), encoding="utf-8")
    browser.look()
    browser.open(path)
    hidden = "document.querySelector('#more-results-section').hidden"
    assert browser.value(hidden)
    browser.value("""(() => { const box = document.querySelector("#sample-text"); box.value = "PROMPT 9";
        box.dispatchEvent(new Event("input")); })()""")
    assert not browser.value(hidden)
    assert browser.value("document.querySelector('#more-results-count').textContent") == "11 of 11 shown"
    texts = browser.value("[...document.querySelectorAll('#more-results li')].map((one) => one.textContent)")
    assert texts[0].startswith("check, row 9 m, right")
    assert "</script>9" in texts[0]
    assert browser.complaints() == []
