import base64
import hashlib
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from posttrain.runtime.report.page import render_page
from posttrain.runtime.report.run_record import Sample, StepEvents, StepWarning, Turn

VOID = {"meta", "link", "input", "br", "hr"}
HOSTILE = (
    "</script><script>alert(1)</script>",
    "</style></title></pre><img src=//evil.example/x onerror=alert(1)>",
    "javascript:alert(1)",
    "\"'><svg onload=alert(1)>",
    "\x00\x1b[31m\r\n\u202e\ud800 \U0001f468\u200d\U0001f469\u200d\U0001f467 שלום",
    "<!--",
    "]]>",
    "word" * 30_000,
)


class Tree(HTMLParser):
    """A strict parser: every element must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data

    def ids(self):
        return [attrs["id"] for _, attrs in self.elements if "id" in attrs]


@pytest.fixture
def full(make):
    """A run with every kind of content."""
    check = make.step(
        "check", "eval", inputs=("sft",), params={"reward": make.reward, "metrics": make.metrics}
    )
    run = make.run(
        make.step("base", "model", image="registry.example/train@sha256:0"),
        make.step("sft", inputs=("base",), secrets=("HUB_TOKEN",)),
        check,
        make.step("ship", "gate", inputs=("check",)),
        make.step("export", "export", inputs=("sft",), gates=("ship",)),
    )
    base, sft, check, ship, export = run.steps
    sft = replace(
        sft,
        state="failed",
        reason="it broke",
        advice="fix it",
        log_tail=("last words",),
        events=StepEvents(
            metrics={"loss": ((1.0, 2.0), (2.0, math.nan), (3.0, 1.0)), "flat": ((1.0, 0.0), (2.0, 0.0))},
            warnings=(StepWarning(message="careful", advice="look"),),
            phases=(("loading", 13.0),),
        ),
    )
    check = replace(
        check,
        events=StepEvents(samples=(Sample(step=0, prompt="1+1=", completion="2", values={"right": 3.0}),)),
        facts={"metrics": {"accuracy": {"kind": "rate", "value": 0.5, "low": 0.4, "high": 0.6, "items": 9}}},
    )
    condition = {"text": "good", "kind": "at_least", "verdict": "fail", "value": 0.5, "low": 0.4, "high": 0.6}
    ship = replace(ship, facts={"verdict": "fail", "conditions": [{**condition, "threshold": 0.8}]})
    export = replace(export, state="held", reason="the gate ship did not open", began=None, ended=None)
    return replace(run, steps=(base, sft, check, ship, export))


def test_a_page_has_all_its_parts(full):
    text = render_page(full)
    tree = Tree(text)
    sections = [attrs["id"] for tag, attrs in tree.elements if tag == "section" and "id" in attrs]
    assert sections == [
        "failures",
        "plan",
        "timeline",
        "gates",
        "metrics",
        "curves",
        "samples",
        "warnings",
        "provenance",
        "steps",
    ]
    for words in (
        "It learns to add.",
        "it broke",
        "fix it",
        "last words",
        "careful",
        "HUB_TOKEN",
        "registry.example",
    ):
        assert words in text


def test_a_page_holds_together(full):
    tree = Tree(render_page(full))
    ids = tree.ids()
    assert len(ids) == len(set(ids))
    links = [attrs["href"] for tag, attrs in tree.elements if tag == "a"]
    assert links
    assert [link for link in links if not (link.startswith("#") and link[1:] in ids)] == []


def test_a_page_can_be_read_aloud(full):
    tree = Tree(render_page(full))
    levels = [int(tag[1]) for tag, _ in tree.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    drawings = [attrs for tag, attrs in tree.elements if tag == "svg"]
    assert drawings
    assert [d for d in drawings if not (d.get("aria-label") or d.get("aria-hidden") == "true")] == []
    heads = [attrs for tag, attrs in tree.elements if tag == "th"]
    assert heads
    assert [h for h in heads if h.get("scope") not in ("row", "col")] == []


def test_nothing_is_loaded_and_only_the_own_script_may_run(full):
    tree = Tree(render_page(full))
    for tag, attrs in tree.elements:
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            value = attrs.get(name)
            assert value is None or value.startswith(("#", "data:image/svg+xml,")), (tag, attrs)
    *data, script = tree.scripts
    assert len(data) == 1
    assert [line["steps"] for line in json.loads(data[0])["lines"]] == [[1.0, 3.0]]
    policy = next(a["content"] for _, a in tree.elements if a.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        f"script-src 'sha256-{digest}'",
    ]
    style = re.search("<style>(.*?)</style>", render_page(full), re.DOTALL)[1]
    assert "url(" not in style
    assert "@import" not in style


def hostile(make, words):
    """A run with the same text in every text field."""
    step = make.step(words, words, inputs=(words,), params={words: words}, secrets=(words,), image=words)
    gate = make.step(f"g{words}", "gate", params={"on_fail": words})
    record, gated = make.run(step, gate).steps
    metric = {"kind": words, "node": words, "value": 0.5, "low": 0.1, "high": 0.9, "items": 3}
    metrics = {words: ((1.0, 2.0), (2.0, 3.0)), f"flat{words}": ((1.0, 2.0),)}
    said = {"step": 1, "prompt": words, "completion": words}
    values = {words: words, "list": [words]}
    turns = (Turn(role=words, text=words), Turn(role="assistant", text=words))
    samples = (
        Sample(**said, values=values),
        Sample(**said, values=values, model=words, turns=turns),
        Sample(**said, values=values, model="other"),
    )
    record = replace(
        record,
        state="failed",
        reason=words,
        advice=words,
        log_tail=(words,),
        facts={
            words: 1,
            "metrics": {words: metric, f"{words}.x": {**metric, "model": words}},
            "comparisons": [{**metric, "metric": "x", "model": words, "baseline": words}, {"metric": words}],
            "rates": {words: {"truncated": words}},
            "truncated": words,
        },
        breakdowns=({**metric, "column": words, "group": words, "metric": words, "model": words},),
        estimate={"seconds": 3, "seconds_min": words, words: words},
        files={words: {"size": words, "sha256": words}},
        events=StepEvents(
            metrics=metrics,
            samples=samples,
            warnings=(StepWarning(message=words, advice=words),),
            phases=((words, 3.0),),
        ),
    )
    gated = replace(
        gated, facts={"verdict": "fail", "conditions": [{"text": words, "kind": words, "verdict": words}]}
    )
    held = replace(gated, state=words, reason=words, step=make.step(f"h{words}", "export", gates=(gated.id,)))
    run = make.run(record, gated, held, name=words, recipe=words, result=words, read_errors=(words,))
    return replace(
        run,
        plan=run.plan.model_copy(
            update={"name": words, "description": words, "target": {words: words}, "tracking": (words,)}
        ),
    )


@pytest.mark.parametrize("words", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_stays_text(make, words):
    text = render_page(hostile(make, words))
    text.encode("utf-8")
    tree = Tree(text)
    programs = [attrs for tag, attrs in tree.elements if tag == "script" and "type" not in attrs]
    assert len(programs) == 1
    assert not any(tag in ("img", "iframe", "object", "embed") for tag, _ in tree.elements)
    assert not any(name.startswith("on") for _, attrs in tree.elements for name in attrs)
    for _, attrs in tree.elements:
        assert not (attrs.get("href") or "#").startswith("javascript")
    usual = [tag for tag, _ in Tree(render_page(hostile(make, "plain"))).elements]
    assert {tag for tag, _ in tree.elements} <= {*usual, "br"}


def test_a_run_of_a_thousand_steps_is_one_page_of_bounded_size(make):
    names = ["loss", "reward", *(f"reward/node{n}" for n in range(6)), *(f"other{n}" for n in range(20))]
    points = tuple((float(s), math.sin(s) + s / 100) for s in range(120))
    events = StepEvents(
        metrics=dict.fromkeys(names, points),
        samples=(Sample(step=1, prompt="p" * 2000, completion="c" * 20_000, values={}),) * 40,
    )
    steps = [make.step("base", "model"), *(make.step(f"sft-{n}", inputs=("base",)) for n in range(999))]
    run = make.run(*steps)
    run = replace(run, steps=tuple(replace(record, events=events) for record in run.steps))
    text = render_page(run)
    tree = Tree(text)
    assert len(text) < 25_000_000
    assert len([tag for tag, _ in tree.elements if tag == "article"]) <= 2000
    points_drawn = sum(len(json.loads(data)["lines"][0]["steps"]) for data in tree.scripts[:-1])
    assert points_drawn <= 60_000
    assert "only the main metrics" in text


def test_a_run_of_which_nothing_is_known_is_a_page(make):
    tree = Tree(render_page(make.run(began=None, ended=None, result=None)))
    assert "steps" in tree.ids()


def test_a_step_with_odd_times_is_drawn(make):
    run = make.run(make.step("a"), make.step("b"), make.step("c"))
    a, b, c = run.steps
    odd = (
        replace(a, began=5.0, ended=1.0),
        replace(b, began=None, ended=7.0),
        replace(c, began=1e18, ended=None, state="running"),
    )
    text = render_page(replace(run, steps=odd, began=None, ended=None))
    places = [str(value) for _, attrs in Tree(text).elements for value in attrs.values()]
    assert not [value for value in places if re.search(r"\bnan\b", value, re.IGNORECASE)]


def test_figures_that_change_are_drawn_and_the_others_told(make):
    metrics = {
        "reward": ((1.0, 1.0), (2.0, 2.0)),
        "reward/total": ((1.0, 1.0), (2.0, 2.0)),
        "reward/format": ((1.0, 0.5), (2.0, 0.75)),
        "loss": ((1.0, 3.0), (2.0, 2.0)),
        "learning_rate": ((1.0, 0.25), (2.0, 0.25)),
        "lost": ((1.0, math.nan), (2.0, math.inf)),
    }
    run = make.run(make.step("grpo", params={"reward": {"returns": "total"}}))
    text = render_page(replace(run, steps=(replace(run.steps[0], events=StepEvents(metrics=metrics)),)))
    drawn = re.findall(r"<figcaption><span [^>]*>([^<]*)<", text)
    assert drawn == ["reward \u00b7 total (total)", "reward \u00b7 format", "loss"]
    assert "learning rate <b>0.25</b>" in text
    assert "lost has no finite value" in text
