"""Runs with evals whose products have real rows, in one or several homes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.comparison.overlay_page import write_overlays
from tests.runtime.report.chart_page import ChartPage
from tests.runtime.report.conftest import Browser, RunBuilder, make_step

from posttrain.runtime import atomic_io
from posttrain.runtime.comparison.compared_run import ComparedRun, read_compared_runs
from posttrain.runtime.evaluation import metric_tables
from posttrain.runtime.rows_io import write_rows
from posttrain.runtime.store import workdir
from posttrain.spec.keys import digest, key_parts
from posttrain.spec.plan import Step, StepInput

REWARD = {
    "reads": {"completion": "text", "answer": "text"},
    "nodes": [{"id": "right", "op": "equal", "operands": {}, "params": {}}],
    "returns": "right",
}
METRICS = {"accuracy": {"kind": "rate", "node": "right"}, "length": {"kind": "mean", "node": "words"}}
SAMPLING = {"temperature": 0.0, "top_p": 1.0, "n": 1, "max_tokens": 8, "batch_size": 4}
Row = dict[str, Any]
# The rows of a run: the value of the node `right`, by the number of the sum that the prompt asks for.
Outcomes = Mapping[int, bool | None]


def eval_rows(outcomes: Outcomes, model: str = "sft") -> list[Row]:
    """Scored completions, one for each sum. An item has its place in the mapping as number."""
    rows: list[Row] = []
    for item, (number, right) in enumerate(outcomes.items()):
        answer = str(number + 1)
        rows.append(
            {
                "model": model,
                "prompt": f"{number}+1=",
                "answer": answer,
                "item": item,
                "completion": answer if right else f"{model}: no idea",
                "tokens": 2,
                "finish": "stop",
                "node:right": right,
                "node:words": None if right is None else float(1 if right else 3),
                "reason:right": "" if right else f"expected {answer}",
            }
        )
    metric_tables.add_rates(rows, "right")
    return rows


def eval_step(id: str = "check", data: str = "sums", **fields: Any) -> Step:
    """An eval of the model `sft` on the dataset `sums`, whose key is that of the name `data`."""
    params = {
        "seed": 1,
        "reward": REWARD,
        "metrics": METRICS,
        "sampling": SAMPLING,
        "models": [{"name": "sft", "role": "model", "engine": "transformers"}],
        "multiple_models": False,
        **fields.pop("params", {}),
    }
    inputs = {"model": StepInput(step="sft"), "data": StepInput(step="datasets.sums", part="test")}
    extensions = {"verb:eval": 4, "rewardop:equal": 1, "engine:transformers": 3}
    values = {
        "kind": "eval",
        "id": id,
        "params": params,
        "input.data": {"key": digest(data), "part": "test"},
        "extensions": {**extensions, **fields.pop("extensions", {})},
    }
    step = make_step(id, "eval", inputs=inputs, params=params, **fields)
    named = {"key": digest(values), "key_values": values, "key_parts": key_parts(values)}
    return step.model_copy(update=named)


class ComparisonRun(RunBuilder):
    """A run that trains `sft` and evaluates it in `check`."""

    def build(
        self,
        outcomes: Outcomes | None,
        *,
        loss: Sequence[float] = (2.0, 1.0),
        rows: Sequence[Row] | None = None,
        lr: float = 0.1,
        **fields: Any,
    ) -> "ComparisonRun":
        data = make_step("datasets.sums", "data")
        train = make_step("sft", params={"params": {"learning_rate": lr}}, inputs=("datasets.sums",))
        about = {name: fields.pop(name) for name in ("name", "description") if name in fields}
        evals = () if outcomes is None and rows is None else (eval_step(**fields),)
        self.begin(data, train, *evals, **about)
        self.done("datasets.sums")
        points = [("metrics", {"step": n, "values": {"loss": value}}) for n, value in enumerate(loss, 1)]
        self.done("sft", points)
        for step in evals:
            self.evaluate(step, rows if rows is not None else eval_rows(outcomes or {}))
        self.end()
        return self

    def begin(self, *steps: Step, **about: Any) -> None:
        super().begin(*steps, **about)
        self.plan = self.plan.model_copy(update={"steps": steps})

    def evaluate(self, step: Step, rows: Sequence[Row]) -> None:
        """Commit the product of an eval, unless an earlier run has."""
        definitions = step.params["metrics"]
        metrics = metric_tables.measure_metrics(rows, definitions, 1)
        facts = {"metrics": metrics}
        if self.home.store.find(self.key(step.id)) is not None:
            self.settle(step.id, "cached", facts=facts)
            return
        work = self.work(step.id)
        (work / "files").mkdir()
        write_rows(work / "files" / "completions.parquet", rows)
        atomic_io.write_json(work / "files" / "metrics.json", metrics)
        receipt = workdir.write_receipt(work, step.key, facts=facts, cost={})
        workdir.commit(work, step, self.key(step.id), receipt, self.home.store)
        self.settle(step.id, "done", facts=facts)

    def done(self, id: str, events: Any = (), **facts: Any) -> None:
        if self.home.store.find(self.key(id)) is not None:
            self.settle(id, "cached", facts=facts)
            return
        super().done(id, events, **facts)

    @property
    def product(self) -> Path:
        return self.home.store.root / self.key("check") / "files" / "completions.parquet"


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., ComparisonRun]:
    """A run in a home of its own, or in that with the name `home`."""
    homes = iter(range(1000))

    def built(outcomes: Outcomes | None = None, home: str = "", **fields: Any) -> ComparisonRun:
        run = ComparisonRun(tmp_path / (home or f"home-{next(homes)}"))
        return run.build(outcomes, **fields)

    return built


@pytest.fixture(scope="session")
def browser(chromium: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = Browser(chromium, tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def overlays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The comparison of the runs in `overlay_page`."""
    return write_overlays(tmp_path_factory.mktemp("overlays"))


@pytest.fixture
def page(browser: Browser, overlays: Path) -> Iterator[ChartPage]:
    found = ChartPage(browser, overlays).open()
    browser.value("localStorage.clear()")
    yield found
    assert browser.complaints() == []


def read_both(base: ComparisonRun, other: ComparisonRun) -> list[ComparedRun]:
    return read_compared_runs([(base.home, base.run), (other.home, other.run)])
