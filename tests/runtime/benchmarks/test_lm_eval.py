"""Benchmarks of tiny models on lm-eval tasks, from the recipe to the product."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from tests.runtime.benchmarks.lm_eval_task_files import TASK_FILES
from tests.runtime.engines.misbehaving_server import (
    Exchange,
    FakeServer,
    chat_response,
    prompt_of,
    run_server,
    send_response,
)
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, recipe, warnings

from posttrain.runtime import atomic_io
from posttrain.runtime.models.model_loader import load_tokenizer
from posttrain.runtime.store.products import Product

BOTH = "quoted: {benchmark: [base, sft], tasks: [sums.yaml, written.yaml], num_fewshot: 2}"
ONE = "quoted: {benchmark: sft, tasks: [sums.yaml, written.yaml, likely.yaml]}"


def of(product: Product, name: str) -> Any:
    return json.loads((product.files / name).read_text())


def rows(product: Product) -> list[dict[str, Any]]:
    return parquet.read_table(product.files / "completions.parquet").to_pylist()


def by_lm_eval(folder: Path, task: Path, shots: int) -> dict[str, float]:
    """The results of lm-eval's own command for a model folder and a task file."""
    from lm_eval import evaluator
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(task.parent)
        # These collect the versions of all packages and query the hub, which takes most of a minute.
        patch.setattr(evaluator, "add_env_info", lambda _results: None)
        patch.setattr(HFLM, "get_model_info", lambda _self: {})
        found = evaluator.simple_evaluate(
            # By default it uses the tokenizer class of the architecture instead of the saved tokenizer.
            model=HFLM(pretrained=str(folder), tokenizer=load_tokenizer(folder), device="cpu", batch_size=16),
            tasks=[str(task)],
            num_fewshot=shots,
            task_manager=TaskManager(include_defaults=False),
        )
    assert found is not None
    (scores,) = found["results"].values()
    return {key: value for key, value in scores.items() if isinstance(value, float)}


@pytest.mark.slow
def test_figures_are_those_that_lm_eval_gives(bench: StageHarness):
    made = bench.run(recipe(BOTH), TASK_FILES)
    metrics = of(made["quoted"], "metrics.json")
    chosen = by_lm_eval(made["sft"].files, bench.root / "sums.yaml", 2)
    assert metrics["sft.sums.acc"]["value"] == chosen["acc,none"]
    assert metrics["sft.sums.acc_norm"]["value"] == chosen["acc_norm,none"]
    wrote = by_lm_eval(made["sft"].files, bench.root / "written.yaml", 2)
    assert metrics["sft.written.exact_match"]["value"] == wrote["exact_match,none"]
    assert metrics["sft.sums.acc"]["kind"] == "rate"
    assert 0 < metrics["sft.sums.acc"]["value"] < 1
    about = of(made["quoted"], "tasks.json")["sft"]["sums"]
    assert about == {"version": "1.5", "shots": 2, "items": 25, "whole": {}}


@pytest.mark.slow
def test_items_stand_in_the_trace_and_models_are_compared_by_them(bench: StageHarness):
    gate = "ship: {gate: [{metric: quoted.sft.sums.acc, better_than: quoted.base.sums.acc}], on_fail: warn}"
    made = bench.run(
        recipe(BOTH, gate.replace("on_fail: warn", "on_fail: warn, on_inconclusive: warn")), TASK_FILES
    )
    found = rows(made["quoted"])
    assert [row["model"] for row in found] == ["base"] * 50 + ["sft"] * 50
    sums = [row for row in found if row["model"] == "sft" and row["task"] == "sums"]
    metrics = of(made["quoted"], "metrics.json")
    assert sum(row["node:sums.acc"] for row in sums) / 25 == metrics["sft.sums.acc"]["value"]
    assert all(row["node:written.exact_match"] is None for row in sums)
    likeliest = [max(json.loads(row["likelihoods"]), key=lambda one: one[1])[0] for row in sums]
    assert [row["completion"] for row in sums] == likeliest
    assert sums[0]["prompt"].endswith("1+1=")
    assert metrics["sft.sums.acc"]["unscored"] == 0  # items of the other task are not counted here
    (result,) = [one for one in of(made["quoted"], "comparisons.json") if one["metric"] == "sums.acc"]
    difference = metrics["sft.sums.acc"]["value"] - metrics["base.sums.acc"]["value"]
    assert result["value"] == pytest.approx(difference)
    assert made["ship"].facts["conditions"][0]["value"] == pytest.approx(difference)


@pytest.mark.slow
def test_figures_that_are_no_means_are_told_beside(bench: StageHarness):
    made = bench.run(recipe(ONE), TASK_FILES)
    whole = of(made["quoted"], "tasks.json")["sft"]["likely"]["whole"]
    assert set(whole) == {"word_perplexity", "byte_perplexity", "bits_per_byte"}
    assert whole["byte_perplexity"]["value"] > 1
    assert not [name for name in of(made["quoted"], "metrics.json") if name.startswith("likely")]


@pytest.mark.slow
def test_a_task_that_was_done_is_not_put_again(bench: StageHarness):
    plan = compile_plan(recipe(ONE.replace("quoted:", "again:")), TASK_FILES)
    step = plan.step("again")
    bench.reset_step(step)
    bench.run_step(plan, step)
    kept = bench.work(step) / "tasks" / "model"
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    kept.mkdir(parents=True)
    done = {"task": "sums", "version": "kept", "shots": 0, "whole": {}}
    item = {"doc": 0, "prompt": "p", "completion": "c", "target": "t", "likelihoods": None}
    atomic_io.write_json(kept / "sums.json", {**done, "items": [{**item, "values": {"acc": 1.0}}]})
    assert bench.wait(step) == 0, bench.failure(step)
    made = bench.commit(step)
    assert of(made, "tasks.json")["sft"]["sums"]["version"] == "kept"
    assert of(made, "metrics.json")["written.exact_match"]["items"] == 25
    bench.reset_step(step)


@pytest.mark.slow
def test_what_a_task_will_not_do_is_told(bench: StageHarness):
    fixed = {**TASK_FILES, "sums.yaml": TASK_FILES["sums.yaml"] + "num_fewshot: 0\n"}
    made = bench.run(recipe("quoted: {benchmark: sft, tasks: [sums.yaml], num_fewshot: 3}"), fixed)
    assert [one for one in warnings(made["quoted"]) if "its definition has 0 few-shot examples" in one]
    broken = {**TASK_FILES, "grade.py": "def target(doc):\n    return doc['nothing']\n"}
    plan = compile_plan(recipe("quoted: {benchmark: sft, tasks: [written.yaml]}"), broken)
    step = plan.step("quoted")
    (bench.root / "grade.py").write_text(broken["grade.py"])
    bench.prepare_step(plan, step)
    assert bench.wait(step) != 0
    result = bench.failure(step)
    assert "written" in result["message"]
    assert "nothing" in result["message"]
    bench.reset_step(step)


def _sums(_wild: FakeServer, exchange: Exchange, body: dict[str, Any], _number: int) -> None:
    """Answers the last addition, and continues after the task's stop string."""
    first, second = prompt_of(body).rpartition("\n")[2].rstrip("=").split("+")
    send_response(exchange, 200, chat_response(f"{int(first) + int(second)}\nAnd so on"))


@pytest.mark.slow
def test_an_endpoint_is_asked_row_by_row(bench: StageHarness):
    with run_server(FakeServer(_sums)) as wild:
        there = f"endpoints:\n  big: {{provider: vllm, model: m, base_url: {wild.url}}}\nstages:"
        stage = "quoted: {benchmark: big, tasks: [written.yaml], prompts: chat}"
        made = bench.run(recipe(stage).replace("stages:", there), TASK_FILES)["quoted"]
        assert of(made, "metrics.json")["written.exact_match"]["value"] == 1.0
        assert len(wild.requests) == 25
        assert all(body["max_tokens"] == 5 for body in wild.requests)


@pytest.mark.slow
def test_the_code_of_a_task_sees_no_secret(bench: StageHarness, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BENCH_KEY", "sentinel")
    # Where a task runs the code that a model has written.
    score = (
        "def score(doc, results):\n    import os\n    return {'exact_match': 'BENCH_KEY' not in os.environ}\n"
    )
    task = TASK_FILES["written.yaml"] + "process_results: !function grade.score\n"
    files = {**TASK_FILES, "written.yaml": task, "grade.py": TASK_FILES["grade.py"] + score}
    with run_server(FakeServer(_sums)) as server:
        access = f"base_url: {server.url}, api_key: {{env: BENCH_KEY}}"
        there = f"endpoints:\n  big: {{provider: vllm, model: m, {access}}}\nstages:"
        stage = "keyed: {benchmark: big, tasks: [written.yaml], prompts: chat}"
        made = bench.run(recipe(stage).replace("stages:", there), files)["keyed"]
    assert of(made, "metrics.json")["written.exact_match"]["value"] == 1.0
