"""The environment variables that reach the processes of a step, with real processes."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.containers.container_runs import RunResult, compile_plan, run_plan
from tests.recipe_command import ROOT, run_command
from tests.runtime.environment_probe import shell_variables

from posttrain.runtime.hosting.host_client import HostClient
from posttrain.runtime.process_environment import (
    forkserver_environment,
    resolve_secrets,
    step_environment,
    unused_variables,
    without_secrets,
)
from posttrain.runtime.runners.dispatch import RunnerDispatch
from posttrain.runtime.runners.process import ProcessRunner
from posttrain.runtime.secret_masking import mask_secrets
from posttrain.runtime.store.home import Home
from posttrain.spec.plan import Launch, Plan, Resources, SourceLocation, Step
from posttrain.spec.process_variables import HUB_CREDENTIAL, find_rule
from posttrain.spec.variable_rules import RULES, key_variables

SENTINEL = "hf_" + "k4Z" * 9
RECIPE = "recipe: 1\nname: probe\nstages:\n  work: {script: [python, program.py], files: [program.py]}\n"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "program.py").write_text("import sys; sys.exit(__import__('os').environ['PROBE'])\n")
    return compile_plan(tmp_path)


def probe_plan(plan: Plan, *, secrets: tuple[str, ...] = (), network: bool = True, gpus: int = 0) -> Plan:
    """The plan with a step that records its environment variables."""
    (step,) = plan.steps
    resources = step.resources.model_copy(update={"network": network, "gpus": gpus})
    entry = "tests.runtime.environment_probe:run"
    return plan.model_copy(
        update={
            "steps": (step.model_copy(update={"entry": entry, "secrets": secrets, "resources": resources}),)
        }
    )


def run_probe(plan: Plan, folder: Path, *, forkserver: bool) -> dict[str, Any]:
    home = Home(folder / ("forkserver" if forkserver else "process"))
    runner = RunnerDispatch(process=ProcessRunner(use_forkserver=forkserver))
    gpus = tuple(str(number) for number in range(plan.steps[0].resources.gpus))
    ended = run_plan(plan, folder, home, runner, gpus)
    assert ended.states == {"work": "done"}, ended.state_changes
    (found,) = home.root.glob("store/*/files/found.json")
    text = found.read_text().replace(str(home.root), "HOME_OF_THE_RUN")
    return json.loads(text)


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [0, 1])
@pytest.mark.parametrize("network", [False, True])
def test_a_forked_process_has_the_variables_of_a_new_one(
    plan: Plan, tmp_path: Path, network: bool, gpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in shell_variables().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_TOKEN", SENTINEL)
    secrets = (HUB_CREDENTIAL,) if network else ()
    probe = probe_plan(plan, secrets=secrets, network=network, gpus=gpus)
    new, forked = (run_probe(probe, tmp_path, forkserver=forkserver) for forkserver in (False, True))
    assert forked == new
    variables = new["variables"]
    assert set(key_variables().items()) <= set(variables.items())
    assert (variables.get("HTTPS_PROXY") is not None) == network
    assert (variables.get("NCCL_OTHER") is not None) == bool(gpus)
    assert not {"VLLM_OTHER", "NCCL_ALGO", "HF_DEBUG", "RANK"} & set(variables)
    assert new["token"] == (SENTINEL if network else None)
    assert new["datasets cache"].startswith("HOME_OF_THE_RUN/work/")
    assert new["endpoint"] == ("http://127.0.0.1:9" if network else "https://huggingface.co")


_VARIABLES = st.dictionaries(
    st.one_of(
        st.sampled_from([name for name in RULES if not name.endswith("*")]),
        st.tuples(
            st.sampled_from([name[:-1] for name in RULES if name.endswith("*")]), st.text("AB_", max_size=4)
        ).map("".join),
        st.text("ABHF_TOKEN", min_size=1, max_size=9),
    ),
    st.text("xyz/:", min_size=1, max_size=9),
    max_size=30,
)


def make_step(**changes: Any) -> Step:
    step = Step(
        id="work",
        kind="script",
        entry="x:y",
        params={},
        place=SourceLocation(file="r", line=1, column=1),
        key="k",
        key_parts={},
        key_values={},
    )
    return step.model_copy(update=changes)


_STEPS = st.builds(
    make_step,
    resources=st.builds(Resources, cpus=st.integers(1, 9), gpus=st.integers(0, 2), network=st.booleans()),
    launch=st.builds(Launch, processes=st.integers(1, 2)),
    secrets=st.sampled_from([(), (HUB_CREDENTIAL,), ("A", "B")]),
)


@given(_VARIABLES, _STEPS)
def test_a_container_has_the_variables_of_a_process_except_for_those_of_the_image(
    caller: dict[str, str], step: Step
) -> None:
    work = Path("w")
    inside = step_environment(step, work, caller, container=True)
    outside = step_environment(step, work, caller)
    for name in {*inside, *outside}:
        rule = find_rule(name, RULES)
        assert rule is not None, name
        match rule.in_container:
            case "same":
                assert inside.get(name) == outside.get(name), name
            case "image":
                assert name not in inside
            case "set":
                assert name in inside


@given(_VARIABLES, _STEPS)
def test_a_variable_reaches_the_step_unless_the_log_names_it_or_no_rule_covers_it(
    caller: dict[str, str], step: Step
) -> None:
    given_to = step_environment(step, Path("w"), caller)
    unused = unused_variables(step, caller, container=False)
    for name, value in caller.items():
        rule = find_rule(name, RULES)
        if (
            given_to.get(name) == value
            or rule is None
            or rule.unreported
            or not rule.applies_to(step)
            or name in step.secrets
        ):
            assert name not in unused
        else:
            assert name in unused or rule.action == "secret"


@given(_VARIABLES, _STEPS)
def test_no_secret_is_among_the_variables(caller: dict[str, str], step: Step) -> None:
    caller = {**caller, "HF_TOKEN": SENTINEL, "A": f"{SENTINEL}a", "HUGGING_FACE_HUB_TOKEN": SENTINEL}
    for container in (False, True):
        variables = step_environment(step, Path("w"), caller, container=container)
        assert SENTINEL not in str(variables)
    assert SENTINEL not in str(forkserver_environment(caller))
    assert set(resolve_secrets(step.secrets, caller)) <= set(step.secrets)


def test_the_hub_token_is_found_where_the_hub_library_looks(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{SENTINEL}\n")
    (tmp_path / ".cache" / "huggingface").mkdir(parents=True)
    (tmp_path / ".cache" / "huggingface" / "token").write_text("of the home")
    names = (HUB_CREDENTIAL,)
    home = {"HOME": str(tmp_path)}
    assert resolve_secrets(names, home) == {HUB_CREDENTIAL: "of the home"}
    assert resolve_secrets(names, {**home, "HF_HOME": str(tmp_path)}) == {HUB_CREDENTIAL: SENTINEL}
    named = {**home, "HF_TOKEN_PATH": str(tmp_path / "token")}
    assert resolve_secrets(names, named) == {HUB_CREDENTIAL: SENTINEL}
    assert resolve_secrets(names, {**named, "HUGGING_FACE_HUB_TOKEN": "old"}) == {HUB_CREDENTIAL: "old"}
    assert resolve_secrets(names, {**named, "HF_TOKEN": "new"}) == {HUB_CREDENTIAL: "new"}
    assert resolve_secrets(("OTHER",), named) == {}
    assert resolve_secrets(names, {"HOME": str(tmp_path / "none")}) == {}


def test_the_log_names_what_has_no_effect_once_and_without_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "program.py").write_text("print('ran')\n")
    monkeypatch.setenv("VLLM_ATTENTION_BACKEND", "confidential")
    monkeypatch.setenv("HF_DATASETS_CACHE", "confidential")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    done = run_command("run", tmp_path, "--home", tmp_path / "home")
    assert done.returncode == 0, done.stdout + done.stderr
    (log,) = (tmp_path / "home" / "store").glob("*/record/log")
    text = log.read_text()
    assert text.count("VLLM_ATTENTION_BACKEND is set but not used: ") == 1
    assert text.count("HF_DATASETS_CACHE is set but not used: ") == 1
    assert "LANG" not in text
    assert "confidential" not in text
    assert text.endswith("ran\n")


def test_the_shell_changes_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = ROOT / "tests" / "recipes" / "tiny"
    plain = run_command("plan", recipe, "--home", tmp_path, "--format", "json")
    for name, value in shell_variables().items():
        monkeypatch.setenv(name, value)
    changed = run_command("plan", recipe, "--home", tmp_path, "--format", "json")
    assert plain.returncode == changed.returncode == 0, changed.stderr
    assert [(step["id"], step["key"]) for step in json.loads(plain.stdout)["steps"]] == [
        (step["id"], step["key"]) for step in json.loads(changed.stdout)["steps"]
    ]


def test_a_program_of_the_user_gets_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reward.py").write_text("import os\ndef names(): return sorted(os.environ)\n")
    for name in ("OPENAI_KEY", HUB_CREDENTIAL, "RANK"):
        monkeypatch.setenv(name, SENTINEL)
    monkeypatch.setenv("POSTTRAIN_SECRETS", f"OPENAI_KEY,{HUB_CREDENTIAL}")
    host = HostClient(sys.executable, "function", tmp_path / "reward.py", "names", {}, (), {"OWN": "1"})
    try:
        ready = host.wait_until_ready()
        assert "error" not in (ready or {"error": "no answer"})
        reply = host.request({}, 30.0)
    finally:
        host.stop()
    assert "OWN" in str(reply)
    assert not any(name in str(reply) for name in ("OPENAI_KEY", HUB_CREDENTIAL, "RANK"))
    with without_secrets():
        assert not {"OPENAI_KEY", HUB_CREDENTIAL} & set(os.environ)
    with without_secrets(keep=(HUB_CREDENTIAL,)):
        assert "OPENAI_KEY" not in os.environ
        assert os.environ[HUB_CREDENTIAL] == SENTINEL
    assert os.environ["OPENAI_KEY"] == os.environ[HUB_CREDENTIAL] == SENTINEL


def test_a_secret_that_a_step_prints_is_in_no_record(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBE", SENTINEL)
    (step,) = plan.steps
    home = Home(tmp_path / "home")
    ended: RunResult = run_plan(
        plan.model_copy(update={"steps": (step.model_copy(update={"secrets": ("PROBE",)}),)}), tmp_path, home
    )
    assert ended.states == {"work": "failed"}
    (log,) = home.root.glob("work/*/record/log")
    assert "*" * len(SENTINEL) in log.read_text()
    assert files_with(home.root, SENTINEL) == []


def test_masking_keeps_the_length_and_the_rest(tmp_path: Path) -> None:
    (tmp_path / "record").mkdir()
    log = tmp_path / "record" / "log"
    log.write_text(f"a {SENTINEL}{SENTINEL} b\nshort\n")
    (tmp_path / "record" / "empty").touch()
    (tmp_path / "failure.json").write_text(json.dumps({"message": f"key {SENTINEL}"}))
    mask_secrets(tmp_path, [SENTINEL, "short"])
    assert log.read_text() == f"a {'*' * 2 * len(SENTINEL)} b\nshort\n"
    assert json.loads((tmp_path / "failure.json").read_text()) == {"message": f"key {'*' * len(SENTINEL)}"}


def files_with(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
