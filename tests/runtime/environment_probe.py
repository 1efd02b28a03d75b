"""A step that records its environment variables, and what libraries have read from them."""

import json
import os
from importlib import import_module

from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Verb
from posttrain.spec.variable_rules import RULES

# The forkserver imports these modules before it knows the variables of the step.
EXTENSION = Verb(
    name="probe", summary="Environment variables.", preload=("datasets", "huggingface_hub.constants")
)


# Variables without which the client's own Python does not run.
_CLIENT = {"PATH", "HOME", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "TMPDIR"}


def shell_variables() -> dict[str, str]:
    """The variables of a shell that has set each variable of the policy, and one with each prefix."""
    names = {f"{name[:-1]}OTHER" if name.endswith("*") else name for name in RULES} - _CLIENT
    return {name: f"of the shell, {name}" for name in names} | {"PYTHONHASHSEED": "7", "LC_ALL": "C"}


def run(context: StepContext) -> None:
    found = {
        "variables": dict(os.environ),
        "datasets cache": str(import_module("datasets.config").HF_DATASETS_CACHE),
        "endpoint": import_module("huggingface_hub.constants").ENDPOINT,
        "token": import_module("huggingface_hub").get_token(),
    }
    (context.out / "found.json").write_text(json.dumps(found))
