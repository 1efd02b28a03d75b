"""Each recipe as shipped, without a profile, against stand-ins for everything outside this machine.

The hub is a local server: data sets have their published columns, models are tiny ones of the same architecture
with random weights. The providers are a local server with their documented rules. AppWorld's apps run where
POSTTRAIN_TEST_APPWORLD is set (`make apart`), with a task of these tests. `OVERRIDES` lists all other values
that differ from the recipes: completion lengths, optimizer steps, and the sizes of parts of small data sets.

Not run: placements on GPUs (vLLM, several processes, bfloat16), W&B (`make apart` runs the tracker), AppWorld's
own tasks, and OpenAI's `max_completion_tokens` (a request to another `base_url` has `max_tokens`).
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
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

# The models of the recipes, with their architectures. A stand-in has another name: the sizes of these are known
# to the compiler, which would reserve disk space for them.
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
NO_GPUS = {"hardware": "null", "tracking": "[tensorboard]"}
# What is smaller than in the recipe.
OVERRIDES: Mapping[str, Mapping[str, str]] = {
    "data-factory": {
        "stages.grpo.params.max_steps": "2",
        "stages.grpo.params.max_completion_length": "16",
        "stages.compared.sampling.max_tokens": "16",
        "stages.coding.sampling.max_tokens": "16",
    },
    "agents-and-rl": {
        "stages.before.sampling.max_tokens": "16",
        "stages.ppo.params.max_steps": "4",
        "stages.ppo.params.batch_size": "8",
        "stages.ppo.params.max_completion_length": "16",
        "stages.ppo.placement": "null",
        "stages.after_ppo.sampling.max_tokens": "16",
        "stages.grpo.params.max_steps": "2",
        "stages.grpo.params.max_completion_length": "16",
        "stages.grpo.evaluate.eval_steps": "1",
        "stages.selection.sampling.max_tokens": "16",
        "stages.after_grpo.sampling.max_tokens": "16",
        "vars.validation": "10",
    },
    "math-policy-gradient": {
        "vars.validation": "10",
        "stages.baseline.sampling.max_tokens": "16",
        "stages.taught.sampling.max_tokens": "16",
        "stages.grpo.placement": "null",
        "stages.grpo.params.max_steps": "2",
        "stages.grpo.params.max_completion_length": "16",
        "stages.grpo.evaluate.eval_steps": "1",
        "stages.selection.sampling.max_tokens": "16",
        "stages.after.sampling.max_tokens": "16",
    },
    "preferences": {},
    "two-phase-reasoning": {
        "vars.completion": "16",
        "vars.lessons": "24",
        "stages.grpo.params.max_steps": "2",
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


def run_full(name: str, folder: Path, **more: str) -> dict[str, Any]:
    """Run a copy of the recipe with stand-ins for its models; return the steps of the run by their id."""
    copy, home = folder / name, folder / "home"
    shutil.copytree(ROOT / "recipes" / name, copy, ignore=shutil.ignore_patterns(".recipe"))
    text = (copy / "recipe.yaml").read_text()
    for model, stand_in in STAND_INS.items():
        text = text.replace(model, stand_in)
    (copy / "recipe.yaml").write_text(text)
    settings = {**NO_GPUS, **OVERRIDES[name], **more}
    options = [part for path, value in settings.items() for part in ("--set", f"{path}={value}")]
    ran = run_command("run", copy, "--home", home, *options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    status = run_command("status", "--home", home, "--format", "json")
    print(ran.stdout)
    return {step["id"]: step for step in json.loads(status.stdout)["steps"]}


def check_steps(steps: Mapping[str, Any]) -> None:
    """Every step is done, and no training reads a single row."""
    assert {step["state"] for step in steps.values()} == {"done"}
    counts = [count for step in steps.values() for count in (step["outcome"].get("rows") or {}).values()]
    assert min(counts) > 1


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("name", ["two-phase-reasoning", "math-policy-gradient", "preferences"])
def test_a_recipe_runs_as_shipped(name: str, tmp_path: Path) -> None:
    steps = run_full(name, tmp_path)
    print(json.dumps(steps)[:5000])
    check_steps(steps)
