"""Concurrent steps within the limits of cores, memory and GPUs.

The GPUs are fake: their detection is tested separately, and no step of these tests uses one.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.recipe_command import product_path, run_command

from posttrain.cli.compile import compile_file
from posttrain.runtime.execution.executor import execute
from posttrain.runtime.execution.resource_pool import EngineQueue, ResourcePool, required_resources
from posttrain.runtime.execution.run_context import RunContext
from posttrain.runtime.machine import Machine, this_machine, total_memory_gb, visible_gpus
from posttrain.runtime.preflight.machine_resources import unmet_requirements
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.runs import new_run
from posttrain.spec.plan import Plan, Resources

MACHINE = Machine(cpus=4, memory_gb=8.0, gpus=("0", "1", "2"))


@pytest.fixture
def slots(tmp_path: Path) -> ResourcePool:
    return ResourcePool(MACHINE, tmp_path)


def test_gpus_are_given_to_one_step_at_a_time(slots: ResourcePool) -> None:
    assert slots.allocate("a", Resources(gpus=2)) is not None
    assert slots.gpus("a") == ("0", "1")
    assert slots.allocate("b", Resources(gpus=2)) is None
    assert slots.allocate("b", Resources(gpus=1)) is not None
    assert slots.gpus("b") == ("2",)
    slots.release("a")
    assert slots.allocate("c", Resources(gpus=1)) is not None
    assert slots.gpus("c") == ("0",)


def test_another_run_of_the_home_has_its_own_gpus(slots: ResourcePool, tmp_path: Path) -> None:
    other = ResourcePool(MACHINE, tmp_path)
    assert other.allocate("theirs", Resources(gpus=2)) is not None
    assert slots.allocate("a", Resources(gpus=2)) is None
    assert slots.allocate("a", Resources(gpus=1)) is not None
    assert slots.gpus("a") == ("2",)
    slots.release("a")
    other.release("theirs")
    assert slots.allocate("a", Resources(gpus=3)) is not None


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        (Resources(cpus=2), Resources(cpus=2), True),
        (Resources(cpus=2), Resources(cpus=3), False),
        (Resources(memory_gb=5), Resources(memory_gb=3), True),
        (Resources(memory_gb=5), Resources(memory_gb=4), False),
        (Resources(memory_gb=8), Resources(), True),
    ],
)
def test_cores_and_memory_add_up(
    slots: ResourcePool, first: Resources, second: Resources, fits: bool
) -> None:
    assert slots.allocate("a", first) is not None
    assert (slots.allocate("b", second) is not None) == fits


@pytest.mark.parametrize(
    ("named", "left"),
    [
        (None, ("0", "1", "2")),
        ("", ()),
        ("-1", ()),
        ("2,0", ("2", "0")),
        ("1,7,0", ("1",)),
        ("GPU-8f2c", ("GPU-8f2c",)),
    ],
)
def test_the_callers_choice_of_gpus_is_kept(named: str | None, left: tuple[str, ...]) -> None:
    environment = {} if named is None else {"CUDA_VISIBLE_DEVICES": named}
    assert visible_gpus(MACHINE.gpus, environment) == left
    assert visible_gpus((), environment) == ()


def test_a_container_has_the_memory_that_it_was_given(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       16777216 kB\nMemFree: 1 kB\n")
    assert total_memory_gb(meminfo, tmp_path) == 16
    (tmp_path / "memory.max").write_text("max\n")
    assert total_memory_gb(meminfo, tmp_path) == 16
    (tmp_path / "memory.max").write_text(f"{3 << 30}\n")
    assert total_memory_gb(meminfo, tmp_path) == 3


PROGRAMS = """\
recipe: 1
name: side-by-side
stages:
  a: {script: [sh, -c, "cd $OUT; echo $CUDA_VISIBLE_DEVICES > gpus; date +%s%N > 0; sleep 1; date +%s%N > 1"]}
  b: {script: [sh, -c, "cd $OUT; echo $CUDA_VISIBLE_DEVICES > gpus; date +%s%N > 0; sleep 1; date +%s%N > 1"]}
  c: {script: [sh, -c, "(printenv CUDA_VISIBLE_DEVICES || echo all) > $OUT/gpus"], inputs: {one: a, two: b}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "recipe.yaml").write_text(PROGRAMS)
    return tmp_path


def compile_with_resources(folder: Path, **resources: float) -> Plan:
    """The plan with GPU and core requirements, which a recipe of scripts cannot declare (only memory)."""
    memory = resources.pop("memory_gb", None)
    settings = [f"stages.{stage}.memory_gb={memory}" for stage in "ab" if memory]
    outcome, _ = compile_file(folder / "recipe.yaml", settings, ())
    assert outcome.plan is not None
    wants = [
        step.model_copy(update={"resources": step.resources.model_copy(update={**resources})})
        if step.id in "ab"
        else step
        for step in outcome.plan.steps
    ]
    return outcome.plan.model_copy(update={"steps": tuple(wants)})


def execute_plan(folder: Path, plan: Plan, machine: Machine) -> dict[str, str]:
    home = Home(folder / "home")
    run = new_run(home, plan, folder / "recipe.yaml")
    journal = Journal(run / "journal.sqlite")
    around = RunContext(
        home=home,
        recipe_dir=folder,
        journal=journal,
        on_state_change=lambda *_: None,
        run_name=run.name,
        machine=machine,
    )
    states = execute(plan, around)
    journal.close()
    return states


def start_and_end(folder: Path, stage: str) -> tuple[int, int]:
    made = product_path(folder / "home", stage)
    return int((made / "0").read_text()), int((made / "1").read_text())


def did_overlap(folder: Path) -> bool:
    (a0, a1), (b0, b1) = start_and_end(folder, "a"), start_and_end(folder, "b")
    return a0 < b1 and b0 < a1


def visible_gpus_of(folder: Path, stage: str) -> str:
    return (product_path(folder / "home", stage) / "gpus").read_text().strip()


def test_steps_with_gpus_run_side_by_side_on_their_own(folder: Path) -> None:
    plan = compile_with_resources(folder, gpus=1)
    assert set(execute_plan(folder, plan, MACHINE).values()) == {"done"}
    assert did_overlap(folder)
    assert {visible_gpus_of(folder, "a"), visible_gpus_of(folder, "b")} == {"0", "1"}
    assert visible_gpus_of(folder, "c") == "", "a step that asks for no GPU sees one"


@pytest.mark.parametrize(
    ("resources", "machine"),
    [
        ({"gpus": 2}, MACHINE),
        ({"memory_gb": 5.0}, MACHINE),
        ({"cpus": 1}, replace(MACHINE, cpus=1)),
    ],
)
def test_steps_that_do_not_fit_together_run_one_after_the_other(
    folder: Path, resources: dict[str, float], machine: Machine
) -> None:
    assert set(execute_plan(folder, compile_with_resources(folder, **resources), machine).values()) == {
        "done"
    }
    assert not did_overlap(folder)


def test_memory_is_counted_as_the_recipe_says_or_as_the_plan_estimates(folder: Path) -> None:
    a, b, c = compile_with_resources(folder, memory_gb=5.0).steps
    estimated = {"memory_gb": 2.5}
    assert (
        required_resources(a).memory_gb
        == required_resources(a.model_copy(update={"estimate": estimated})).memory_gb
        == 5
    )
    assert required_resources(c).memory_gb is None
    twice = c.model_copy(
        update={"estimate": estimated, "launch": c.launch.model_copy(update={"processes": 2})}
    )
    assert required_resources(twice).memory_gb == 5
    on_cards = twice.model_copy(update={"resources": c.resources.model_copy(update={"gpus": 2})})
    assert required_resources(on_cards).memory_gb is None, "the estimate is GPU memory"
    assert "lower its memory_gb" in next(unmet_requirements([b], replace(MACHINE, memory_gb=4.0))).advice


def test_a_step_that_is_too_large_fails_instead_of_waiting_for_ever(folder: Path) -> None:
    plan = compile_with_resources(folder, gpus=4)
    assert execute_plan(folder, plan, MACHINE)["a"] == "failed"
    unmet = next(unmet_requirements(plan.steps, replace(MACHINE, gpus=())))
    assert "`a` requires 4 GPUs, but this machine has none available" in unmet.cause
    assert "run the recipe on a machine with 4 GPUs" in unmet.advice


def test_what_is_too_large_is_refused_before_anything_runs(folder: Path) -> None:
    many = this_machine(gpus=False).cpus + 1
    recipe = f"recipe: 1\nname: wide\nhardware: {{cpus: {many}}}\n"
    tiny = Path(__file__).parent.parent / "recipes" / "tiny"
    text = (tiny / "recipe.yaml").read_text().partition("\n\n")[2]
    (folder / "chat.jinja").write_bytes((tiny / "chat.jinja").read_bytes())
    (folder / "recipe.yaml").write_text(recipe + text)
    done = run_command("run", folder, "--home", folder / "home")
    assert done.returncode == 1
    assert f"`sft` requires {many} cores" in done.stderr
    assert not (folder / "home" / "runs").exists()
    assert run_command("plan", folder, "--home", folder / "home").returncode == 0


def test_the_queue_of_an_engine_takes_every_step_up_to_the_limit_of_the_place() -> None:
    unlimited, limited = EngineQueue(), EngineQueue(2)
    huge = Resources(cpus=10_000, gpus=512)
    for id in "abc":
        assert unlimited.allocate(id, huge) is not None
        assert unlimited.gpus(id) is None
    assert limited.allocate("a", huge) is not None
    assert limited.allocate("b", huge) is not None
    assert limited.allocate("c", huge) is None
    limited.release("a")
    assert limited.allocate("c", huge) is not None
