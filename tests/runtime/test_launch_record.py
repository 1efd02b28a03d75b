"""The launch in the manifest of a product, and what a plan with another launch says about it."""

from pathlib import Path

import pytest
from tests.runtime.scripts_recipe import RECIPE, compile_text

from posttrain.cli.progress_display import ProgressDisplay
from posttrain.runtime.execution.dry_run import forecast_plan
from posttrain.runtime.execution.run_plan import run_plan
from posttrain.runtime.store import workdir
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.launch_record import cache_note, launch_record
from posttrain.runtime.store.products import Product
from posttrain.spec.plan import Launch, Step
from posttrain.spec.step_records import Receipt


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def training_step(step: Step, launch: Launch, micro: int | None = None) -> Step:
    params = {"method": "sft", "params": {"micro_batch_size": micro}}
    return step.model_copy(update={"kind": "train", "launch": launch, "params": params})


def product_of(tmp_path: Path, home: Home, step: Step) -> Product:
    work = home.workdir(step.key)
    home.prepare()
    workdir.prepare(work, step, {}, tmp_path)
    (work / "files").mkdir()
    return workdir.commit(work, step, step.key, empty_receipt(work, step), home.store)


def empty_receipt(work: Path, step: Step) -> Receipt:
    return workdir.write_receipt(work, step.key, {}, {"seconds": 0.0})


DDP = Launch(processes=2, strategy="ddp")
_BOTH_DIFFER = (
    "trained with 2 processes (ddp) and micro_batch_size 4, the plan has 2 processes (zero2) and no"
    " micro_batch_size"
)


@pytest.mark.parametrize(
    ("before", "micro", "now", "text"),
    [
        (DDP, None, Launch(), "trained with 2 processes (ddp), the plan has 1 process"),
        (Launch(), None, DDP, "trained with 1 process, the plan has 2 processes (ddp)"),
        (
            DDP,
            4,
            DDP.model_copy(update={"strategy": "zero2"}),
            _BOTH_DIFFER,
        ),
        (
            Launch(engine="vllm"),
            None,
            Launch(engine="transformers"),
            "trained with the engine vllm, the plan has the engine transformers",
        ),
        (DDP, None, DDP, ""),
    ],
)
def test_a_cached_product_of_another_launch_is_reported(
    before: Launch, micro: int | None, now: Launch, text: str, tmp_path: Path, home: Home
) -> None:
    plan, _ = compile_text(tmp_path, RECIPE)
    product = product_of(tmp_path, home, training_step(plan.step("count"), before, micro))
    assert product.manifest.launch.model_dump() == {
        "nodes": 1,
        "processes": before.processes,
        "strategy": before.strategy,
        "engine": before.engine,
        "micro_batch_size": micro,
    }
    assert cache_note(product, training_step(plan.step("count"), now)) == text


def test_plan_and_run_say_so(tmp_path: Path, home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    plan, options = compile_text(tmp_path, RECIPE)
    run_plan(plan, home, options)
    assert forecast_plan(plan, home)["count"].reason == "finished in an earlier run"
    steps = tuple(step.model_copy(update={"launch": DDP}) for step in plan.steps)
    other = plan.model_copy(update={"steps": steps})
    text = "made with 1 process, the plan has 2 processes (ddp)"
    found = forecast_plan(other, home)["count"]
    assert (found.state, found.reason) == ("cached", text)
    result = run_plan(other, home, options, ProgressDisplay(other, options.recipe.parent))
    assert set(result.states.values()) == {"cached"}
    assert text in capsys.readouterr().out


def test_a_product_of_an_earlier_client_has_the_launch_of_that_client(tmp_path: Path, home: Home) -> None:
    """The client that commits a finished step is not always the one that started it."""
    plan, _ = compile_text(tmp_path, RECIPE)
    started, later = (training_step(plan.step("count"), launch) for launch in (DDP, Launch()))
    work = home.workdir(started.key)
    home.prepare()
    workdir.prepare(work, started, {}, tmp_path)
    (work / "files").mkdir()
    product = workdir.commit(work, later, later.key, empty_receipt(work, started), home.store)
    assert product.manifest.launch == launch_record(started)
