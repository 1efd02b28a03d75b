"""Lines of models: what each stage's weights go back to, and what is trained of them."""

from collections.abc import Mapping
from dataclasses import replace

from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.model_declaration import Adapter, Model
from posttrain.spec.record import record
from posttrain.spec.train_stage import Train


@record
class Lineage:
    """Where a line of models begins, and the adapter that holds at this point of it."""

    # The declared model at the beginning; None when a script made it, or when it is mistaken.
    origin: str | None
    adapter: Adapter | None
    # Where that adapter is written.
    adapter_path: KeyPath


def trains_in_float32(model: Model | None) -> bool:
    """Whether the whole weights of such a line are trained in float32, whatever they are stored in.

    Steps of the size that post-training takes are mostly lost when they are added to bfloat16.
    """
    return model is None or (model.dtype == "auto" and model.init is None)


def model_lineages(resolved: ResolvedRecipe) -> Mapping[str, Lineage]:
    """The line of every model and of every stage that has one, by node."""
    found: dict[str, Lineage] = {}
    for name, model in resolved.recipe.models.items():
        found[f"model:{name}"] = Lineage(name, model.adapter, ("models", name, "adapter"))
    for node in resolved.order:  # what a stage goes back to is already there
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
