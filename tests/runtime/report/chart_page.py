"""A page with curves of known events, and the JavaScript that finds its charts."""

import csv
import io
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 90
LONG = 5000
# The events of a step begin at this time; a step takes two seconds.
BEGAN = 1.7e9
PAUSE = 5000.0


def loss(step: float) -> float:
    return 3 * math.exp(-step / 30) + 0.05 * math.sin(step) + 0.2


def tokens(step: float) -> int:
    return 1000 + 100 * (int(step) % 7)


def sft_events() -> list[dict[str, Any]]:
    """A training that was interrupted after a checkpoint at step 60, and resumed after a pause."""
    events: list[dict[str, Any]] = [{"at": BEGAN, "kind": "started", "attempt": 1}]
    late = 0.0
    for step in range(1, STEPS + 1):
        at = BEGAN + 2 * step + late
        values: dict[str, Any] = {"loss": loss(step), "kl": math.sin(step), "cost/tokens": tokens(step)}
        values |= {"entropy": math.nan} if step in (40, 41) else {"entropy": 2 + math.cos(step)}
        events.append({"at": at, "kind": "metrics", "step": step, "values": values})
        if step % 30 == 0:
            held_out = {"eval/loss": loss(step) + 0.1, "cost/eval_seconds": 0.5}
            events.append({"at": at + 0.5, "kind": "metrics", "step": step, "values": held_out})
        if step in (30, 60):
            events.append({"at": at + 0.5, "kind": "checkpoint", "step": step})
        if step == 60:
            late = PAUSE
            events.append({"at": at + late, "kind": "started", "attempt": 2})
            events.append({"at": at + late, "kind": "resumed", "step": 60})
    return events


def long_events() -> list[dict[str, Any]]:
    values = np.random.default_rng(0).normal(size=LONG) + np.linspace(5, 0, LONG)
    return [
        {"at": BEGAN + step, "kind": "metrics", "step": step, "values": {"loss": float(values[step])}}
        for step in range(LONG)
    ]


def short_events() -> list[dict[str, Any]]:
    return [
        {"at": BEGAN + step, "kind": "metrics", "step": step, "values": {"loss": 1 / step}}
        for step in (1, 2, 3)
    ]


EVENTS = {"sft": sft_events, "long": long_events, "short": short_events}


def write_page(builder: Any, make: Any, path: Path) -> Path:
    """The report of a run whose stages have these events."""
    builder.begin(*(make.step(name) for name in EVENTS))
    for name, events in EVENTS.items():
        folder = builder.work(name) / "record"
        (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events()))
    path.write_text(builder.page(), encoding="utf-8")
    return path


CHART = """document.querySelector('[data-stage="{stage}"] .chart[data-metric="{metric}"]')"""


class ChartPage:
    """A page in a browser, with questions about its charts."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.browser, self.path = browser, path

    def open(self, **look: Any) -> "ChartPage":
        self.browser.look(**look)
        self.browser.open(self.path)
        return self

    def ask(self, metric: str, question: str, stage: str = "sft") -> Any:
        """Evaluate an expression of the figure."""
        chart = CHART.format(stage=stage, metric=metric)
        return self.browser.value(f"((figure) => {question})({chart})")

    def ticks(self, metric: str, stage: str = "sft") -> list[str]:
        """The labels of the x axis."""
        middle = (
            """[...figure.querySelectorAll('.tick[text-anchor="middle"]')].map((one) => one.textContent)"""
        )
        return self.ask(metric, middle, stage)

    def value_ticks(self, metric: str, stage: str = "sft") -> dict[str, float]:
        """The labels of the y axis with their positions."""
        ends = """Object.fromEntries([...figure.querySelectorAll('.tick[text-anchor="end"]')]
            .map((one) => [one.textContent, Number(one.getAttribute("y")) - 3.5]))"""
        return self.ask(metric, ends, stage)

    def points(self, metric: str, stage: str = "sft", line: int = 0) -> list[list[float]]:
        """The points of a line: 0 is that of the values, unless they are smoothed away."""
        path = self.ask(
            metric, f"figure.querySelectorAll('path.raw, path.line')[{line}].getAttribute('d')", stage
        )
        return [
            [float(n) for n in part.split()]
            for part in path.replace("h0", "").replace("L", "M").split("M")[1:]
        ]

    def readout(self, metric: str, stage: str = "sft") -> str:
        return self.ask(metric, "figure.querySelector('.readout').textContent", stage)

    def tool(self, metric: str, text: str, stage: str = "sft") -> None:
        """Press a button of a chart."""
        self.ask(
            metric,
            f"""[...figure.querySelectorAll('.tools button')]
                .find((one) => one.textContent === '{text}').click()""",
            stage,
        )

    def choose(self, label: str, value: str, stage: str = "sft") -> None:
        """Choose a value in the tools of a stage."""
        self.browser.value(f"""(() => {{
            const labels = [...document.querySelectorAll('[data-stage="{stage}"] > .stage-tools label')];
            const label = labels.find((one) => one.textContent.startsWith("{label}"));
            const select = label.querySelector("select");
            select.value = "{value}";
            select.dispatchEvent(new Event("change"));
        }})()""")

    def box(self, metric: str, stage: str = "sft") -> list[float]:
        """The drawing of a chart on the screen: left, top, width, height."""
        return self.ask(
            metric,
            """(() => {
                const svg = figure.querySelector("svg");
                svg.scrollIntoView({behavior: "instant", block: "center"});
                const box = svg.getBoundingClientRect();
                return [box.left, box.top, box.width, box.height];
            })()""",
            stage,
        )

    def at(
        self, metric: str, step: float, stage: str = "sft", low: float = 1, high: float = STEPS
    ) -> tuple[float, float]:
        """The place on the screen of a step in the middle of a chart."""
        left, top, width, height = self.box(metric, stage)
        place = 46 + (step - low) / (high - low) * (350 - 46)
        return left + place / 360 * width, top + height / 2


def allow_downloads(browser: Any, folder: Path) -> Callable[[str], str]:
    """Save downloads in a folder. The function waits for one of them, and returns its text."""
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def read(name: str) -> str:
        for _ in range(200):
            if (folder / name).exists():
                return (folder / name).read_text(encoding="utf-8")
            time.sleep(0.05)
        raise AssertionError(f"no {name} in {[path.name for path in folder.iterdir()]}")

    return read


def csv_columns(text: str) -> dict[str, list[float | None]]:
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    return {name: [float(row[name]) if row[name] else None for row in rows] for name in rows[0]}
