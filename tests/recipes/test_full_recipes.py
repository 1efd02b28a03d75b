"""Each recipe as shipped, without a profile, against stand-ins for everything outside this machine.

The hub is a local server: data sets have their published columns, models are tiny ones of the same
architecture with random weights. The providers are a local server with their documented rules. AppWorld's
apps run where POSTTRAIN_TEST_APPWORLD is set (`make apart`), with tasks of these tests. `OVERRIDES` lists
all other values that differ: completion lengths, optimizer steps, and sizes of parts of small data sets.

Not run: placements on GPUs (vLLM, several processes, bfloat16), W&B (`make apart` runs the tracker),
AppWorld's own tasks, and OpenAI's `max_completion_tokens` (a request to another `base_url` has
`max_tokens`).
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import require_service
from tests.recipe_command import ROOT, run_command
from tests.recipes.published_datasets import PUBLISHED, published_files
from tests.recipes.stand_in_providers import Providers, serve_providers
from tests.recipes.tiny_hub_models import tiny_hub_model
from tests.runtime.data.fake_dataset_hub import serve_repositories

pytestmark = pytest.mark.slow

# The models of the recipes, with their architectures. A stand-in has another name: the compiler knows the
# sizes of these, and the run would need the disk space for them.
ARCHITECTURES = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": "llama",
    "meta-llama/Llama-3.2-1B-Instruct": "llama",
    "Qwen/Qwen2.5-3B-Instruct": "qwen2",
    "mistralai/Ministral-8B-Instruct-2410": "mistral",
    "Qwen/Qwen3-8B": "qwen3",
    "Qwen/Qwen3-4B-Base": "qwen3",
    "Qwen/Qwen2.5-Math-1.5B": "qwen2",
    "openai-community/gpt2-medium": "gpt2",
    "EleutherAI/pythia-1.4b": "gpt_neox",
    "Qwen/Qwen2.5-1.5B-Instruct": "qwen2",
    "mistralai/Mistral-7B-Instruct-v0.3": "mistral",
}
STAND_INS = {name: f"stand-ins/{name.partition('/')[2]}-tiny" for name in ARCHITECTURES}
# Random weights rarely succeed.
_FEW_STEPS = {"max_steps": "2", "max_completion_length": "16", "on_constant_reward": "warn"}


def _few_steps(*stages: str) -> dict[str, str]:
    return {f"stages.{stage}.params.{name}": value for stage in stages for name, value in _FEW_STEPS.items()}


def _short_completions(*stages: str) -> dict[str, str]:
    return {f"stages.{stage}.sampling.max_tokens": "16" for stage in stages}


# Of AppWorld, made by these tests.
TASKS = ("note_1", "note_2")
APPWORLD_ROOT_MAKER = ROOT / "tests" / "runtime" / "environments" / "make_appworld_root.py"
APPWORLD_STEPS = ("datasets.tasks", "datasets.unseen_tasks", "acts_before", "agent", "acts_after", "export")
NO_GPUS = {"hardware": "null", "tracking": "[tensorboard]"}
# What is smaller than in the recipe.
OVERRIDES: Mapping[str, Mapping[str, str]] = {
    "data-factory": {
        **_few_steps("grpo"),
        **_short_completions("compared", "coding"),
    },
    "agents-and-rl": {
        **_few_steps("ppo", "grpo", "agent"),
        **_short_completions("before", "after_ppo", "selection", "after_grpo"),
        "vars.validation": "10",
        "environments.appworld.max_turns": "2",
        "environments.appworld.max_turn_tokens": "16",
        "stages.acts_before.sampling.max_tokens": "512",
        "stages.acts_after.sampling.max_tokens": "512",
        "stages.agent.params.max_completion_length": "512",
        "stages.agent.params.max_steps": "1",
        "stages.agent.params.num_generations": "2",
        "stages.agent.placement": "null",
        "stages.ppo.params.batch_size": "8",
        "stages.ppo.placement": "null",
        "stages.grpo.evaluate.eval_steps": "1",
    },
    "math-policy-gradient": {
        **_few_steps("grpo"),
        **_short_completions("baseline", "taught", "selection", "after"),
        "vars.examples": "10",
        "vars.validation": "10",
        "stages.grpo.placement": "null",
        "stages.grpo.evaluate.eval_steps": "1",
    },
    "preferences": {},
    "two-phase-reasoning": {
        **_few_steps("grpo"),
        "vars.lessons": "24",
        "vars.completion": "16",
        "stages.grpo.evaluate.eval_steps": "1",
    },
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    datasets = {("datasets", name): published_files(name) for name in PUBLISHED}
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in set(ARCHITECTURES.values())}
    files = {kind: tiny_hub_model(kind, folder) for kind, folder in folders.items()}
    models = {("models", STAND_INS[name]): files[kind] for name, kind in ARCHITECTURES.items()}
    with serve_repositories({**datasets, **models}) as address:
        yield address


@pytest.fixture
def providers() -> Iterator[Providers]:
    with serve_providers() as server:
        yield server


@pytest.fixture
def outside(hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the runs: the hub's address, and keys."""
    for name, value in {"HF_ENDPOINT": hub, "HF_HOME": str(tmp_path / "hub")}.items():
        monkeypatch.setenv(name, value)
    for name in ("ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "key-of-the-stand-in")


def run_full(name: str, folder: Path, *arguments: str, **more: str) -> dict[str, Any]:
    """Run a copy of the recipe with stand-ins for its models; return the steps of the run by their id."""
    copy, home = folder / name, folder / "home"
    shutil.copytree(ROOT / "recipes" / name, copy, ignore=shutil.ignore_patterns(".recipe"))
    text = (copy / "recipe.yaml").read_text()
    for model, stand_in in STAND_INS.items():
        text = text.replace(model, stand_in)
    (copy / "recipe.yaml").write_text(text)
    for file in copy.glob("tasks-*.jsonl"):
        file.write_text("".join(f"{json.dumps({'task_id': task})}\n" for task in TASKS))
    settings = {**NO_GPUS, **OVERRIDES[name], **more}
    options = [part for path, value in settings.items() for part in ("--set", f"{path}={value}")]
    ran = run_command("run", copy, "--home", home, *options, *arguments)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    status = run_command("status", "--home", home, "--format", "json")
    return {step["id"]: step for step in json.loads(status.stdout)["steps"]}


def check_steps(steps: Mapping[str, Any], skipped: Sequence[str] = ()) -> None:
    """Every step is done, and no step has a dataset of a single row."""
    assert {name for name, step in steps.items() if step["state"] == "skipped"} == set(skipped)
    assert {step["state"] for step in steps.values()} <= {"done", "skipped"}
    counts = [count for step in steps.values() for count in (step["outcome"].get("rows") or {}).values()]
    assert min(counts) > 1


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("name", ["two-phase-reasoning", "math-policy-gradient", "preferences"])
def test_a_recipe_runs_as_shipped(name: str, tmp_path: Path) -> None:
    check_steps(run_full(name, tmp_path))


@pytest.mark.usefixtures("outside")
def test_the_data_factory_runs_against_the_rules_of_providers(providers: Providers, tmp_path: Path) -> None:
    paths = {"writer": "anthropic", "follower": "openrouter/v1", "judge": "openai/v1"}
    urls = {f"endpoints.{name}.base_url": f"{providers.url}/{path}" for name, path in paths.items()}
    check_steps(run_full("data-factory", tmp_path, **urls))
    for provider in ("anthropic", "openrouter", "openai"):
        assert providers.responses[provider, 200] > 10
        assert providers.responses[provider, 429] == 1
    assert providers.responses["anthropic", 529] == 1
    assert {status for _, status in providers.responses} == {200, 429, 529}


@pytest.mark.usefixtures("outside")
def test_agents_and_rl_runs_up_to_appworld(tmp_path: Path) -> None:
    steps = run_full("agents-and-rl", tmp_path, "--until", "reasons,selection")
    check_steps(steps, skipped=APPWORLD_STEPS)


@pytest.mark.usefixtures("outside")
def test_agents_and_rl_runs_in_appworld(tmp_path: Path) -> None:
    how = "an interpreter with appworld==0.1.3.post1, after `appworld install`"
    python = os.environ.get("POSTTRAIN_TEST_APPWORLD")
    python = require_service("AppWorld", python, f"set POSTTRAIN_TEST_APPWORLD: {how}", apart=True)
    root = tmp_path / "appworld"
    root.mkdir()
    subprocess.run([python, str(APPWORLD_ROOT_MAKER), str(root)], check=True, cwd=root)
    tasks = root / "data" / "tasks"
    for task in TASKS[1:]:
        shutil.copytree(tasks / TASKS[0], tasks / task)
    where = {"vars.appworld_python": python, "vars.appworld_root": str(root)}
    steps = run_full("agents-and-rl", tmp_path, **where)
    check_steps(steps)
