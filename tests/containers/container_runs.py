"""Runs small recipes in containers, with the command and with the executor."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.execution.executor import RunContext, execute
from posttrain.runtime.installed_stack import installed_stack
from posttrain.runtime.machine import this_machine
from posttrain.runtime.runners.dispatch import RunnerDispatch
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.runs import new_run
from posttrain.spec.plan import Plan

RECIPE = """\
recipe: 1
name: scripted
container: {{image: "{image}"}}
stages:
  work:
    script: [python, program.py]
    files: [program.py]
    network: {network}
    retry: {{attempts: {attempts}, wait_seconds: 0}}
{more}"""


def write_script_recipe(
    folder: Path, image: str, program: str, *, network: bool = False, attempts: int = 1, more: str = ""
) -> Path:
    """Write a recipe with one stage that runs a program in a container; `more` is appended to it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.py").write_text(program)
    text = RECIPE.format(image=image, network=str(network).lower(), attempts=attempts, more=more)
    (folder / "recipe.yaml").write_text(text)
    return folder


@dataclass
class RunResult:
    """The final states of the steps of a run, and the state changes."""

    states: Mapping[str, str]
    state_changes: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)

    def failure(self, step: str) -> Mapping[str, Any]:
        return next(known for id, state, known in self.state_changes if id == step and state == "failed")


def compile_plan(recipe: Path) -> Plan:
    source = SourceFile("recipe.yaml", (recipe / "recipe.yaml").read_bytes())
    request = CompileRequest(
        source=source,
        catalog=CATALOG,
        read=lambda name: (recipe / name).read_bytes(),
        stack=installed_stack(),
    )
    outcome = compile_recipe(request)
    assert outcome.plan is not None, outcome.diagnostics
    return outcome.plan


def run_plan(
    plan: Plan,
    recipe: Path,
    home: Home,
    runner: RunnerDispatch | None = None,
    cards: tuple[str, ...] = (),
) -> RunResult:
    """Execute a plan in this process, as if the machine had these GPUs."""
    folder = new_run(home, plan, recipe / "recipe.yaml")
    journal = Journal(folder / "journal.sqlite")
    ended = RunResult({})
    context = RunContext(
        home=home,
        recipe_dir=recipe,
        journal=journal,
        on_state_change=lambda id, state, known: ended.state_changes.append((id, state, known)),
        run_name=folder.name,
        runner=runner or RunnerDispatch(),
        machine=replace(this_machine(gpus=False), gpus=cards),
    )
    ended.states = execute(plan, context)
    journal.close()
    return ended


def replace_step(plan: Plan, secrets: tuple[str, ...] = (), **resources: Any) -> Plan:
    """The plan with other resources and secrets for its only step."""
    (step,) = plan.steps
    step = step.model_copy(
        update={"secrets": secrets, "resources": step.resources.model_copy(update=resources)}
    )
    return plan.model_copy(update={"steps": (step,)})


def foreign_owners(folder: Path) -> set[tuple[int, int]]:
    found = [path.lstat() for path in folder.rglob("*")]
    return {(item.st_uid, item.st_gid) for item in found} - {(os.getuid(), os.getgid())}
