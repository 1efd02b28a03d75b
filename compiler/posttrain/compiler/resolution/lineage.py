"""Model lineage: the declared model that each stage's weights come from, and the adapter in effect."""

from collections.abc import Mapping
from dataclasses import replace

from posttrain.compiler.resolution.name_resolution import Ref, ResolvedRecipe
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.adapter_declaration import Adapter
from posttrain.spec.artifact_stages import Script, ScriptOutput
from posttrain.spec.model_declaration import Model
from posttrain.spec.record import record
from posttrain.spec.train_stage import Train


@record
class Lineage:
    """The origin of a model, and the adapter in effect at this point."""

    # The declared model; None for weights of a script with unknown shape, or an invalid declaration.
    origin: str | None
    adapter: Adapter | None
    # The path of the adapter in the recipe.
    adapter_path: KeyPath


def trains_in_float32(model: Model | None) -> bool:
    """Whether training of all weights uses float32, regardless of the stored type.

    Updates of the size that is typical in post-training are mostly lost in bfloat16.
    """
    return model is None or (model.dtype == "auto" and model.init is None)


def weight_element_size(model: Model | None) -> int:
    """Return the bytes of a stored weight: two for published models, four for models created with `init`."""
    if model is None or model.dtype == "float32":
        return 4
    if model.dtype == "auto":
        return 4 if model.init is not None else 2
    return 2


def model_lineages(resolved: ResolvedRecipe) -> Mapping[str, Lineage]:
    """The lineage of every model, of every stage with a model and of the models of scripts, by product."""
    found: dict[str, Lineage] = {}
    for name, model in resolved.recipe.models.items():
        found[f"model:{name}"] = Lineage(name, model.adapter, ("models", name, "adapter"))
    for node in resolved.order:  # topological, so the predecessor's lineage exists
        thing, _, name = node.partition(":")
        stage = resolved.recipe.stages.get(name) if thing == "stage" else None
        if isinstance(stage, Script):
            found |= _output_lineages(node, stage, resolved, found)
            continue
        ref = resolved.refs.get((node, "model"))
        if stage is None or ref is None:
            continue
        line = _after(found.get(ref.product, Lineage(None, None, ("stages", name))), ref, resolved)
        if isinstance(stage, Train) and stage.adapter is not None:
            line = replace(line, adapter=stage.adapter, adapter_path=("stages", name, "adapter"))
        found[node] = line
    return found


def _output_lineages(
    node: str, stage: Script, resolved: ResolvedRecipe, found: Mapping[str, Lineage]
) -> dict[str, Lineage]:
    """The lineages of the models that a script declares `like` an input. They are full weights."""
    lines: dict[str, Lineage] = {}
    for name, output in stage.outputs.items():
        role = output.like if isinstance(output, ScriptOutput) else None
        ref = resolved.refs.get((node, role)) if role is not None else None
        line = found.get(ref.product) if ref is not None else None
        if line is not None:
            lines[f"{node}.{name}"] = replace(
                line, adapter=None, adapter_path=(*_path(node), "outputs", name)
            )
    return lines


def _path(node: str) -> KeyPath:
    return ("stages", node.partition(":")[2])


def _after(line: Lineage, ref: Ref, resolved: ResolvedRecipe) -> Lineage:
    """The lineage after the node: the product of a training can have another adapter than its declaration."""
    trained = ref.kind == "stage" and isinstance(resolved.recipe.stages.get(ref.name), Train)
    if not trained or line.adapter is None or not line.adapter.changes_base:
        return line
    return replace(line, adapter=line.adapter.as_trained())
