"""A step that records its environment variables, and what libraries have read from them."""

import json
import os
from importlib import import_module

from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Verb

# The forkserver imports these modules before it knows the variables of the step.
EXTENSION = Verb(
    name="probe", summary="Environment variables.", preload=("datasets", "huggingface_hub.constants")
)


def run(context: StepContext) -> None:
    found = {
        "variables": dict(os.environ),
        "datasets cache": str(import_module("datasets.config").HF_DATASETS_CACHE),
        "endpoint": import_module("huggingface_hub.constants").ENDPOINT,
        "token": import_module("huggingface_hub").get_token(),
    }
    (context.out / "found.json").write_text(json.dumps(found))
