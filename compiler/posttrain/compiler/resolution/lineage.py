"""Model lineage: the declared model that each stage's weights come from, and the adapter in effect."""

from collections.abc import Mapping
from dataclasses import replace

from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.model_declaration import Adapter, Model
from posttrain.spec.record import record
from posttrain.spec.train_stage import Train


@record
class Lineage:
    """The origin of a model, and the adapter in effect at this point."""

    # The declared model; None if a script produced the weights, or if the declaration is invalid.
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
    """The lineage of every model and of every stage with a model, by node."""
    found: dict[str, Lineage] = {}
    for name, model in resolved.recipe.models.items():
        found[f"model:{name}"] = Lineage(name, model.adapter, ("models", name, "adapter"))
    for node in resolved.order:  # topological, so the predecessor's lineage exists
        thing, _, name = node.partition(":")
        stage = resolved.recipe.stages.get(name) if thing == "stage" else None
        ref = resolved.refs.get((node, "model"))
        if stage is None or ref is None:
            continue
        line = found.get(ref.node, Lineage(None, None, ("stages", name)))
        if isinstance(stage, Train) and stage.adapter is not None:
            line = replace(line, adapter=stage.adapter, adapter_path=("stages", name, "adapter"))
        found[node] = line
    return found
