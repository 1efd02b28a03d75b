"""The processes of a step have the same variables of the policy in every runner."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.containers.container_runs import compile_plan, run_plan, write_script_recipe
from tests.runtime.environment_probe import shell_variables

from posttrain.runtime.runners import process
from posttrain.runtime.runners.dispatch import RunnerDispatch
from posttrain.runtime.store.home import Home
from posttrain.spec.plan import Plan
from posttrain.spec.process_variables import HUB_CREDENTIAL, find_rule
from posttrain.spec.variable_rules import RULES, key_variables

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.docker, pytest.mark.slow]
PROGRAM = (
    "import json, os; open(os.environ['OUT'] + '/variables.json', 'w').write(json.dumps(dict(os.environ)))"
)
SENTINEL = "hf_" + "v2N" * 9
EACH_RUNNER = "container", "forked process", "new process"


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory, stack_image: str) -> Path:
    return write_script_recipe(tmp_path_factory.mktemp("recipe"), stack_image, PROGRAM)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A shell that has set each variable of the policy."""
    values = shell_variables()
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(HUB_CREDENTIAL, SENTINEL)
    return values


def variables_by_runner(
    plan: Plan, recipe: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, dict[str, str]]:
    """The variables of the policy in the step, by runner, with the same name for each home."""
    (step,) = plan.steps
    local = plan.model_copy(update={"steps": (step.model_copy(update={"image": None}),)})
    found: dict[str, dict[str, str]] = {}
    for name in EACH_RUNNER:
        if name == "forked process":
            monkeypatch.setattr(process, "heavy_imports", lambda _: ("json",))
        home = Home(folder / name.replace(" ", "-"))
        runner = RunnerDispatch(process=process.ProcessRunner(use_forkserver=name == "forked process"))
        ended = run_plan(plan if name == "container" else local, recipe, home, runner)
        assert ended.states == {"work": "done"}, ended.state_changes
        (path,) = home.root.glob("store/*/files/variables.json")
        seen = json.loads(path.read_text().replace(str(home.root), "HOME_OF_THE_RUN"))
        found[name] = {one: value for one, value in seen.items() if find_rule(one, RULES) is not None}
    return found


@pytest.mark.parametrize("network", [False, True])
def test_each_runner_passes_the_same_variables(
    network: bool,
    recipe: Path,
    shell: dict[str, str],
    tmp_path: Path,
    docker_engine: "DockerClient",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = compile_plan(recipe)
    (step,) = plan.steps
    secrets = (HUB_CREDENTIAL,) if network else ()
    resources = step.resources.model_copy(update={"network": network})
    step = step.model_copy(update={"secrets": secrets, "resources": resources})
    found = variables_by_runner(plan.model_copy(update={"steps": (step,)}), recipe, tmp_path, monkeypatch)
    assert found["forked process"] == found["new process"]
    same = {
        name for name in {*found["container"], *found["new process"]} if rule_in_container(name) == "same"
    }
    assert {name: found["container"].get(name) for name in same} == {
        name: found["new process"].get(name) for name in same
    }
    for variables in found.values():
        assert set(key_variables().items()) <= set(variables.items())
        assert variables.get(HUB_CREDENTIAL) == (SENTINEL if network else None)
        assert ("HTTPS_PROXY" in variables) == ("HF_HUB_OTHER" in variables) == network
    # A path on this machine does not reach the container.
    assert "of the shell" in found["new process"]["HF_HOME"]
    assert [
        name
        for name, value in found["container"].items()
        if shell.get(name) == value and rule_in_container(name) == "image"
    ] == []
    assert found["container"]["HF_HOME"].startswith("HOME_OF_THE_RUN/work/")
    records = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "variables.json"]
    assert [path for path in records if SENTINEL.encode() in path.read_bytes()] == []


def rule_in_container(name: str) -> str:
    rule = find_rule(name, RULES)
    assert rule is not None
    return rule.in_container
