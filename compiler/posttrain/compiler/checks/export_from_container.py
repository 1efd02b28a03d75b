"""Exports that bring their model to a folder, which a container does not see."""

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.parsing.typed_recipe import TypedRecipe
from posttrain.spec.artifact_stages import Export
from posttrain.spec.diagnostic import Code

_IMAGE = "registry.example/posttrain-cpu@sha256:" + "6d4c7a3f0e1b2958" * 4
_STAGES = ("stages:\n", "stages:\n  out: {export: base, push: {%s}}\n")
_CONTAINER = ("datasets:", f"container: {{image: {_IMAGE}}}\ndatasets:")
EXPORT_FROM_CONTAINER = Code(
    "PT0902",
    "a push to a folder from a container",
    "error",
    "A step in a container writes to its own workplace alone: a folder elsewhere on the machine would be one"
    " inside the container, and gone with it. The hub can be reached from there.",
    wrong=minimal_recipe(_CONTAINER, (_STAGES[0], _STAGES[1] % "folder: models/out")),
    right=minimal_recipe(_CONTAINER, (_STAGES[0], _STAGES[1] % "hub: someone/out")),
)
CODES = (EXPORT_FROM_CONTAINER,)


def check_export_folders(recipe: TypedRecipe, diagnostics: Diagnostics) -> None:
    for name, stage in recipe.stages.items():
        if not isinstance(stage, Export) or stage.push is None or stage.push.folder is None:
            continue
        if stage.container is not None or recipe.container is not None:
            message = "a step in a container cannot bring its model to a folder of the machine"
            help = "bring it to the hub, or take the container away"
            diagnostics.add(EXPORT_FROM_CONTAINER, ("stages", name, "push", "folder"), message, help=help)
