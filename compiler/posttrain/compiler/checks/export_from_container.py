"""Checks exports to a local folder, which a container cannot access."""

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
    "export to a folder from a container",
    "error",
    "A step in a container can write only to its own working directory. A folder elsewhere would be inside"
    " the container and would be lost when it ends. Push to the hub instead, or run the export outside the"
    " container.",
    wrong=minimal_recipe(_CONTAINER, (_STAGES[0], _STAGES[1] % "folder: models/out")),
    right=minimal_recipe(_CONTAINER, (_STAGES[0], _STAGES[1] % "hub: someone/out")),
)
CODES = (EXPORT_FROM_CONTAINER,)


def check_export_folders(recipe: TypedRecipe, diagnostics: Diagnostics) -> None:
    for name, stage in recipe.stages.items():
        if not isinstance(stage, Export) or stage.push is None or stage.push.folder is None:
            continue
        if stage.container is not None or recipe.container is not None:
            message = "a step in a container cannot write to a folder of the host"
            help = "push to the hub, or run this stage without a container"
            diagnostics.add(EXPORT_FROM_CONTAINER, ("stages", name, "push", "folder"), message, help=help)
