"""Tests benchmark stages: task names, task files, requirements of the models, and metrics for gates."""

import json
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import pytest
from tests.conftest import require_service
from tests.runtime.benchmarks.lm_eval_task_files import TASK_FILES
from tools import lm_eval_table

from posttrain.compiler.benchmarks import lm_eval_tasks
from posttrain.compiler.benchmarks.benchmark_codes import benchmark_example
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.compiler.pipeline import CompileResult, compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.installed_stack import installed_stack


def compile_text(text: str, files: Mapping[str, str] = TASK_FILES) -> CompileResult:
    contents = {name: content.encode() for name, content in files.items()}
    source = SourceFile("recipe.yaml", text.encode())
    stack = {**installed_stack(), "lm-eval": "0.4.13"}
    return compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=contents.get, stack=stack))


def messages_of(text: str, files: Mapping[str, str] = TASK_FILES) -> list[tuple[str, str]]:
    return [(one.code, f"{one.message}; {one.help}") for one in compile_text(text, files).diagnostics]


def benchmark_step(text: str, files: Mapping[str, str] = TASK_FILES) -> Any:
    found = compile_text(text, files)
    assert found.plan is not None, found.diagnostics
    return found.plan.step("quoted")


@pytest.mark.slow
def test_the_table_is_that_of_the_installed_release():
    require_service("lm-eval", find_spec("lm_eval"), "pip install 'posttrain[benchmarks]'")
    made = lm_eval_table.render_table(lm_eval_table.build_table())
    written = lm_eval_table.TABLE.read_text()
    assert made == written, "run `python tools/lm_eval_table.py` and read the difference"
    assert json.loads(written) == load_table("lm_eval")


def test_tasks_that_people_quote_are_known():
    metrics = {
        "hellaswag": "acc_norm",
        "arc_challenge": "acc_norm",
        "gsm8k": "exact_match.strict-match",
        "winogrande": "acc",
        "truthfulqa_mc2": "acc",
        "piqa": "acc_norm",
    }
    for task, metric in metrics.items():
        found = lm_eval_tasks.tasks()[task].metrics
        assert found is not None
        assert found[metric], task
    assert len(lm_eval_tasks.expand_group("mmlu") or ()) == 57
    assert lm_eval_tasks.tasks()["humaneval"].unsafe


def test_a_name_that_is_none_is_told_with_the_one_that_was_meant():
    ((code, text),) = messages_of(benchmark_example("tasks: [helaswag]"))
    assert code == "PT0685"
    assert "did you mean `hellaswag`?" in text
    assert "0.4.13" in text


def test_a_task_is_put_once():
    ((code, text),) = messages_of(benchmark_example("tasks: [mmlu, mmlu_anatomy]"))
    assert (code, "`mmlu_anatomy` is named twice" in text) == ("PT0685", True)


def test_a_group_is_its_tasks_and_their_common_figure():
    found = benchmark_step(benchmark_example("tasks: [mmlu]"))
    assert len(found.params["tasks"]) == 57
    assert "mmlu.acc" in found.params["metrics"]
    assert "mmlu_anatomy.acc" in found.params["metrics"]
    assert found.params["groups"]["mmlu"]["metrics"] == ["acc"]


def test_what_a_task_file_brings_is_part_of_the_key():
    text = benchmark_example("tasks: [sums.yaml, written.yaml]")
    found = benchmark_step(text)
    brought = {"common.yaml", "sums.yaml", "written.yaml", "grade.py", "train.jsonl", "test.jsonl"}
    assert set(found.files) == brought
    assert found.pinned
    assert not found.resources.network
    for name in brought - {"sums.yaml"}:
        grown = TASK_FILES[name] + ("" if name.endswith(".jsonl") else "# more\n")
        changed = {**TASK_FILES, name: grown + (TASK_FILES[name] if name.endswith(".jsonl") else "")}
        assert benchmark_step(text, changed).key != found.key, name


def test_data_of_the_hub_are_pinned_by_their_commits():
    loose = benchmark_step(benchmark_example("tasks: [gsm8k]"))
    assert (loose.pinned, loose.resources.network) == (False, True)
    revisions = "revisions: {openai/gsm8k: 0123456789abcdef0123456789abcdef01234567}"
    held = benchmark_step(benchmark_example(f"tasks: [gsm8k], {revisions}"))
    assert held.pinned
    assert not benchmark_step(benchmark_example("tasks: [gsm8k], revisions: {openai/gsm8k: main}")).pinned
    assert held.key_values["environment"]["lm-eval"] == "0.4.13"
    assert benchmark_step(benchmark_example(f"tasks: [gsm8k], {revisions}, num_fewshot: 3")).key != held.key
    assert benchmark_step(benchmark_example(f"tasks: [gsm8k], {revisions}, limit: 9")).key != held.key
    assert benchmark_step(benchmark_example(f"tasks: [gsm8k], {revisions}, batch_size: 2")).key == held.key


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("process_results: !function os.system\n", "does not name a function in a local file"),
        ("process_results: !function ../../escape.run\n", "does not name a function in a local file"),
        ("include: sums.yaml\n", "circular include of"),
        ("include: nothing.yaml\n", "no file `nothing.yaml`"),
        ("output_type: telepathy\n", "must be one of"),
        ("dataset_kwargs: {data_files: absent.jsonl}\n", "no file `absent.jsonl`"),
        ("dataset_kwargs: {}\n", "lists no data files"),
        ("dataset_path: ./folder\n", "folder"),
        ("group: many\n", "does not define a single task"),
        ("metric_list: [{metric: exact_mach}]\n", "did you mean `exact_match`?"),
        ("task: [a\n", "is not valid YAML"),
        ("task: ../../elsewhere\n", "is not a valid task name"),
    ],
)
def test_task_files_that_cannot_be_used(more: str, why: str):
    base = "".join(
        line + "\n"
        for line in (TASK_FILES["common.yaml"] + TASK_FILES["sums.yaml"]).splitlines()
        if line.partition(":")[0] != more.partition(":")[0] and not line.startswith("include")
    )
    found = messages_of(benchmark_example("tasks: [sums.yaml]"), {**TASK_FILES, "sums.yaml": base + more})
    assert len(found) == 1
    assert found[0][0] in ("PT0686", "PT0409")
    assert why in found[0][1]


def test_endpoints_are_asked_to_write_alone():
    endpoint = "endpoints:\n  big: {provider: vllm, base_url: http://localhost:8000, model: m}\n"
    for tasks, codes in (("hellaswag", ["PT0687"]), ("gsm8k", []), ("written.yaml", [])):
        text = benchmark_example(f"tasks: [{tasks}]", endpoint).replace(
            "benchmark: sft", "benchmark: [sft, big]"
        )
        assert [code for code, _ in messages_of(text)] == codes, tasks


def test_programs_are_run_when_that_is_said_and_only_then():
    assert [code for code, _ in messages_of(benchmark_example("tasks: [humaneval]"))] == ["PT0688"]
    assert [
        code for code, _ in messages_of(benchmark_example("tasks: [gsm8k], confirm_run_unsafe_code: true"))
    ] == ["PT0688"]
    assert not messages_of(benchmark_example("tasks: [humaneval], confirm_run_unsafe_code: true"))


def test_a_metric_from_the_hub_is_code_that_is_not_at_hand():
    fetched = TASK_FILES["sums.yaml"] + "metric_list: [{metric: f1, aggregation: mean, hf_evaluate: true}]\n"
    files = {**TASK_FILES, "sums.yaml": fetched}
    assert [code for code, _ in messages_of(benchmark_example("tasks: [sums.yaml]"), files)] == ["PT0688"]
    assert not messages_of(benchmark_example("tasks: [sums.yaml], confirm_run_unsafe_code: true"), files)


def _gated(
    condition: str, stage: str = "tasks: [mmlu, gsm8k, wikitext], limit: 100"
) -> list[tuple[str, str]]:
    return messages_of(benchmark_example(stage) + f"  ship: {{gate: [{{{condition}}}]}}\n")


def test_gates_name_what_tasks_give():
    assert not _gated("metric: quoted.mmlu.acc, at_least: 0.5")
    assert not _gated("metric: quoted.gsm8k.exact_match.strict-match, at_least: 0.5")
    ((code, text),) = _gated("metric: quoted.mmlu.ac, at_least: 0.5")
    assert (code, "did you mean `quoted.mmlu.acc`?" in text) == ("PT0702", True)
    ((code, _),) = _gated("metric: quoted.wikitext.word_perplexity, at_most: 20")
    assert code == "PT0702"


def test_a_limit_that_cannot_decide_is_told_before_anything_runs():
    ((code, text),) = _gated("metric: quoted.gsm8k.exact_match.strict-match, at_least: 0.99")
    assert (code, "100 items" in text) == ("PT0704", True)
    assert not _gated("metric: quoted.mmlu.acc, at_least: 0.99")  # a hundred items for each task


def test_benchmarks_of_one_task_are_compared_whatever_else_they_put():
    other = "  before: {benchmark: base, tasks: [gsm8k, piqa], limit: LIMIT}\n"
    metric = "gsm8k.exact_match.strict-match"
    gate = f"  ship: {{gate: [{{metric: quoted.{metric}, better_than: before.{metric}}}]}}\n"
    for limit, codes in ((100, []), (90, ["PT0705"])):
        text = benchmark_example("tasks: [gsm8k], limit: 100") + other.replace("LIMIT", str(limit)) + gate
        assert [code for code, _ in messages_of(text)] == codes
