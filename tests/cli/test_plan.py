"""`recipe plan`: the table, the flowchart and the exit status."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.cli.npm_packages import install_npm_package
from tests.recipe_command import ROOT, TINY_RECIPE, run_command

from posttrain.cli.compile import compile_file
from posttrain.cli.estimate_text import estimate_cells
from posttrain.cli.main import main
from posttrain.cli.mermaid import flowchart
from posttrain.cli.text_tables import print_plan_table
from posttrain.compiler.lockfile.lock_entries import required_entries
from posttrain.runtime.execution.dry_run import StepForecast, forecast_plan
from posttrain.runtime.store.checkpoints import finalize
from posttrain.runtime.store.home import Home
from posttrain.spec.lockfile import format_lock
from posttrain.spec.plan import Launch, Plan, plan_from_json

PROGRAMS = """\
recipe: 1
name: programs
stages:
  count: {script: [sh, -c, "echo 1 > $OUT/count"]}
  double: {script: [sh, -c, "echo 2 > $OUT/count"], inputs: {number: count}}
"""


def recipe(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def plan_of(path: Path) -> Plan:
    outcome, _ = compile_file(path, (), ())
    assert outcome.plan is not None
    return outcome.plan


def states(text: str) -> dict[str, str]:
    """The state of every step in the table."""
    lines = [line.split() for line in text.splitlines()]
    at = lines[0].index("state")
    return {line[0]: line[at] for line in lines[1:-1]}


def test_status_2_until_the_work_is_done(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(PROGRAMS)
    asked = ("plan", tmp_path, "--home", tmp_path / "home", "--exit-code")
    before = recipe(*asked)
    assert before.exit_code == 2
    assert states(before.output) == {"count": "run", "double": "run"}
    assert before.output.splitlines()[-1] == "2 to run"
    assert recipe(*asked[:-1]).exit_code == 0
    assert run_command("run", tmp_path, "--home", tmp_path / "home").returncode == 0
    after = recipe(*asked)
    assert after.exit_code == 0
    assert after.output.splitlines()[-1] == "nothing to run"
    for form in ("json", "mermaid"):
        assert recipe(*asked, "--format", form).exit_code == 0
    (tmp_path / "recipe.yaml").write_text(PROGRAMS.replace("echo 2", "echo 3"))
    changed = recipe(*asked)
    assert changed.exit_code == 2
    assert states(changed.output) == {"count": "cached", "double": "run"}
    assert "echo 2" in changed.output
    assert "echo 3" in changed.output


def test_a_step_with_a_checkpoint_is_resumed(tmp_path: Path) -> None:
    key = plan_of(TINY_RECIPE / "recipe.yaml").step("sft").key
    checkpoint = tmp_path / "work" / key / "checkpoints" / "checkpoint-8"
    checkpoint.mkdir(parents=True)
    finalize(checkpoint)
    shown = recipe("plan", TINY_RECIPE, "--home", tmp_path)
    assert states(shown.output)["sft"] == "resume"
    assert "resumes from step 8" in shown.output
    assert shown.output.splitlines()[-1].startswith("7 to run, 1 to resume")


def test_complete_digests_of_a_step_are_shown_on_request(tmp_path: Path) -> None:
    step = plan_of(TINY_RECIPE / "recipe.yaml").step("sft")
    data = step.key_values["input.data"]["key"]
    short, full = (
        recipe("plan", TINY_RECIPE, "--home", tmp_path, "--step", "sft", *option).output
        for option in ((), ("--verbose",))
    )
    assert re.findall(r"[0-9a-f]{64}", short) == []
    assert f'input.data = {{"key": "{data[:12]}", "part": "train"}}' in short
    assert step.key in full
    assert data in full


def test_estimates_stand_in_columns_and_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(TINY_RECIPE / "recipe.yaml")
    known = {
        "after": {"seconds": 60.0, "memory_gb": 1.0, "dollars": 0.5},
        "sft": {"seconds": 5400.0, "memory_gb": 31.25, "dollars": 3.5},
        "grpo": {"seconds": 600.0, "memory_gb": 40.0, "dollars": 0.25},
        "before": {"seconds": 120.0, "memory_gb": None, "dollars": None},
    }
    steps = tuple(step.model_copy(update={"estimate": known.get(step.id)}) for step in plan.steps)
    plan = plan.model_copy(update={"steps": steps})
    prospects = {step.id: StepForecast(state="run", reason="never run") for step in steps}
    prospects["grpo"] = StepForecast(state="cached", reason="finished in an earlier run")
    print_plan_table(plan, prospects)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["step", "kind", "state", "time", "memory", "cost", "key", "why"]
    shown = {line.split("  ")[0]: line for line in lines[1:-1]}
    assert "90 min" in shown["sft"]
    assert "31.2 GB" in shown["sft"]
    assert "$3.50" in shown["sft"]
    assert "40" not in shown["grpo"].replace(plan.step("grpo").key[:10], "")  # cached: no cost
    assert lines[-1] == "7 to run, 1 cached; about 1 h 33 min, $4.00"
    unknown = tuple(
        step.model_copy(update={"estimate": None}) if step.id == "after" else step for step in steps
    )
    print_plan_table(plan.model_copy(update={"steps": unknown}), prospects)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "7 to run, 1 cached; at least 1 h 32 min, $3.50; 1 of unknown duration"


def test_a_range_of_times_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(TINY_RECIPE / "recipe.yaml")
    estimate = {"seconds": 120, "seconds_min": 60, "seconds_max": 180}
    steps = tuple(
        s.model_copy(update={"estimate": estimate if s.kind in ("train", "eval") else None})
        for s in plan.steps
    )
    print_plan_table(
        plan.model_copy(update={"steps": steps}),
        {step.id: StepForecast(state="run", reason="never run") for step in steps},
    )
    assert capsys.readouterr().out.splitlines()[-1] == "8 to run; about 8 min 00 s (4 min to 12 min)"


def print_estimated(estimate: dict[str, Any], nodes: int = 1, servers: int = 0) -> None:
    """Print a plan in which two steps have this estimate, and one of them runs on several nodes."""
    plan = plan_of(TINY_RECIPE / "recipe.yaml")
    steps = tuple(
        step.model_copy(update={"estimate": estimate if step.id in ("sft", "grpo") else None})
        for step in plan.steps
    )
    launch = Launch(processes=4 * nodes, strategy="ddp", nodes=nodes, rollouts={"nodes": servers})
    steps = tuple(s.model_copy(update={"launch": launch}) if s.id == "sft" else s for s in steps)
    prospects = {step.id: StepForecast(state="run", reason="never run") for step in steps}
    print_plan_table(plan.model_copy(update={"steps": steps}), prospects)


def test_the_parts_of_the_time_are_summed_over_the_steps(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("startup", "training", "in-loop evaluation one", "in-loop evaluation two")
    print_estimated({"seconds": 480, "parts": [{"name": name, "seconds": 120.0} for name in names]})
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "time by part: startup 4 min, training 4 min, in-loop evaluation 8 min"


CALLS = {
    "endpoint": "critic",
    "purpose": "verdicts of score",
    "calls_min": 10,
    "calls_max": 1_000_000,
    "input_tokens_min": 1000,
    "input_tokens_max": 2_500_000,
    "output_tokens_min": 20,
    "output_tokens_max": 90_000,
}


def test_calls_of_an_endpoint_are_summed_with_their_dollars(capsys: pytest.CaptureFixture[str]) -> None:
    price = {"input": 1.0, "output": 2.0, "source": "list price of 2026-03"}
    print_estimated(
        {"dollars": 2.0, "api": [{**CALLS, "price": price, "dollars_min": 1.0, "dollars_max": 3.0}]}
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "8 to run; $4.00"
    assert lines[-1] == (
        "API calls of critic: 20 to 2M requests, 2,000 to 5M input tokens, 40 to 180k output tokens,"
        " $2.00 to $6.00 (list price of 2026-03)"
    )


def test_calls_without_a_price_make_the_cost_a_lower_bound(capsys: pytest.CaptureFixture[str]) -> None:
    print_estimated({"dollars": 2.0, "api": [{**CALLS, "price_unknown": "no price of `m` is known"}]})
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3] == "8 to run; at least $4.00"
    assert "$" not in lines[-2]
    assert lines[-1] == "  no price of `m` is known"


@pytest.mark.parametrize(("dollars", "cell"), [(0.0, ""), (2.0, "at least $2.00")])
def test_the_row_of_a_step_without_a_price_shows_no_exact_cost(dollars: float, cell: str) -> None:
    api = [{**CALLS, "price_unknown": "no price of `m` is known"}]
    assert estimate_cells({"dollars": dollars, "api": api})[2] == cell
    assert estimate_cells({"dollars": dollars})[2] == f"${dollars:.2f}"


def test_a_stage_on_several_nodes_is_shown_with_its_layout(capsys: pytest.CaptureFixture[str]) -> None:
    print_estimated({"seconds": 60}, nodes=2)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "sft runs on 2 nodes, 4 processes on each: on a cluster, with `--on NAME`"
    print_estimated({"seconds": 60}, nodes=1)
    assert "nodes" not in capsys.readouterr().out
    print_estimated({"seconds": 60}, nodes=1, servers=1)
    last = capsys.readouterr().out.splitlines()[-1]
    roles = "(1 that trains, 4 processes on each; 1 with the vLLM server)"
    assert last == f"sft runs on 2 nodes {roles}: on a cluster, with `--on NAME`"


UNPINNED = """\
recipe: 1
name: loose
models: {base: {from: org/name}}
stages:
  look: {script: [cat], inputs: {model: base}}
"""


def test_unpinned_inputs_are_reported(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(UNPINNED)
    shown = recipe("plan", tmp_path, "--home", tmp_path / "home")
    assert shown.output.splitlines()[-1].startswith("not pinned to a revision: models.base; `recipe lock`")
    (tmp_path / "recipe.lock").write_text(
        format_lock({("model", "org/name@main"): "0" * 40} | stack_of(tmp_path))
    )
    locked = recipe("plan", tmp_path, "--home", tmp_path / "home", "--locked")
    assert locked.output.splitlines()[-1] == "2 to run"


def stack_of(folder: Path) -> dict[tuple[str, str], str]:
    outcome, _ = compile_file(folder / "recipe.yaml", (), ())
    assert outcome.plan is not None
    return {id: value for id, value in required_entries(outcome.plan, ()).items() if value is not None}


def test_without_estimates_there_is_no_column_for_them(capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(TINY_RECIPE / "recipe.yaml")
    plan = plan.model_copy(
        update={"steps": tuple(step.model_copy(update={"estimate": None}) for step in plan.steps)}
    )
    print_plan_table(plan, {step.id: StepForecast(state="run", reason="never run") for step in plan.steps})
    header, *_, last = capsys.readouterr().out.splitlines()
    assert header.split() == ["step", "kind", "state", "key", "why"]
    assert last == "8 to run"


def test_a_part_of_the_plan_is_chosen_as_for_a_run(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(PROGRAMS)
    asked = ("plan", tmp_path, "--home", tmp_path / "home", "--only", "count")
    shown = recipe(*asked, "--exit-code")
    assert states(shown.output) == {"count": "run", "double": "skipped"}
    assert shown.output.splitlines()[-1] == "1 to run, 1 skipped"
    assert shown.exit_code == 2
    assert ":::skipped" in recipe(*asked, "--format", "mermaid").output
    assert run_command("run", tmp_path, "--home", tmp_path / "home", "--only", "count").returncode == 0
    assert recipe(*asked, "--exit-code").exit_code == 0
    assert recipe("plan", tmp_path, "--only", "cuont").exit_code == 2


@pytest.fixture(scope="module")
def mermaid(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Mermaid, with the DOM that it needs outside of a browser."""
    package = install_npm_package(tmp_path_factory.mktemp("npm"), "mermaid", "11.4.1")
    return package, install_npm_package(tmp_path_factory.mktemp("npm"), "jsdom", "25.0.1")


def parse_flowcharts(texts: list[str], mermaid: tuple[Path, Path]) -> list[Any]:
    """The nodes and edges that Mermaid's parser finds in flowcharts."""
    command = ["node", Path(__file__).with_name("flowchart.mjs"), *mermaid]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_mermaid_reads_the_flowchart(mermaid: tuple[Path, Path], tmp_path: Path) -> None:
    plan = plan_of(ROOT / "recipes" / "quickstart" / "recipe.yaml")
    asked = recipe("plan", ROOT / "recipes" / "quickstart", "--home", tmp_path, "--format", "mermaid")
    (chart,) = parse_flowcharts([asked.output], mermaid)
    names = {node["id"]: node["text"].split("\n")[0] for node in chart["nodes"]}
    assert list(names.values()) == [step.id for step in plan.steps]
    assert [names[n["id"]] for n in chart["nodes"] if n["shape"] == "diamond"] == ["ship"]
    drawn = {(names[edge["from"]], names[edge["to"]], edge["text"]) for edge in chart["edges"]}
    assert drawn == {
        (source.step, step.id, source.part or "") for step in plan.steps for source in step.inputs.values()
    } | {(gate, step.id, "") for step in plan.steps for gate in step.gates}
    dotted = [(names[e["from"]], names[e["to"]]) for e in chart["edges"] if e["line"] == "dotted"]
    assert dotted == [("ship", "export")]


def test_states_and_estimates_are_in_the_flowchart(mermaid: tuple[Path, Path]) -> None:
    plan = plan_of(TINY_RECIPE / "recipe.yaml")
    estimate = {"seconds": 120.0, "memory_gb": 12.0, "dollars": 1.0}
    plan = plan.model_copy(
        update={"steps": tuple(step.model_copy(update={"estimate": estimate}) for step in plan.steps)}
    )
    prospects = {step.id: StepForecast(state="run", reason='rate: "<a>" -> [b]; #1;') for step in plan.steps}
    prospects["models.base"] = StepForecast(state="cached", reason="finished in an earlier run")
    prospects["sft"] = StepForecast(state="resume", reason="resumes from step 8")
    (chart,) = parse_flowcharts([flowchart(plan, prospects)], mermaid)
    nodes = {node["text"].split("\n")[0]: node for node in chart["nodes"]}
    assert nodes["models.base"]["text"] == "models.base\nmodel, cached"
    assert nodes["sft"]["text"] == "sft\ntrain, to resume\nresumes from step 8\n2 min, 12.0 GB, $1.00"
    assert nodes["grpo"]["text"].split("\n")[2] == 'rate: "<a>" -> [b]; #1;'
    assert {step: nodes[step]["classes"] for step in ("models.base", "sft", "grpo")} == {
        "models.base": ["cached"],
        "sft": ["resume"],
        "grpo": ["run"],
    }


MATRIX = """\
recipe: 1
name: legs
matrix: {word: ["a\\"b", "end", "x|y", "<script>alert(1)</script>", "日本 é", "%% c", "[(", "click"]}
stages:
  say: {script: [echo, "${matrix.word}"]}
  hear: {script: [cat], inputs: {said: say}}
"""


def test_mermaid_shows_any_value_of_a_matrix_as_it_is(mermaid: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(MATRIX)
    plan = plan_of(tmp_path / "recipe.yaml")
    assert len(plan.steps) == 16
    (chart,) = parse_flowcharts([flowchart(plan, forecast_plan(plan, Home(tmp_path)))], mermaid)
    assert [node["text"].split("\n")[0] for node in chart["nodes"]] == [step.id for step in plan.steps]
    assert len(chart["edges"]) == 8


def test_json_is_the_plan_itself(tmp_path: Path) -> None:
    shown = recipe("plan", TINY_RECIPE, "--home", tmp_path, "--format", "json")
    assert plan_from_json(shown.output) == plan_from_json(json.dumps(json.loads(shown.output)))
    assert (
        plan_from_json(shown.output).step("sft").key == plan_of(TINY_RECIPE / "recipe.yaml").step("sft").key
    )
