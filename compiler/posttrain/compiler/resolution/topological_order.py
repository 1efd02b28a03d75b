"""An order in which everything can be made, or the circle in which nothing can."""

from collections.abc import Mapping

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.parsing.typed_recipe import TypedRecipe
from posttrain.compiler.resolution.references import Ref
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Gate

CIRCULAR_REFERENCE = Code(
    "PT0303",
    "things that need each other",
    "error",
    "Each of these is made from the next, or held back by it, so none can be made first. A gate holds"
    " back every stage written after it.",
    wrong=minimal_recipe(
        ("model: base", "model: again"),
        ("  check:", "  again: {train: sft, model: sft, data: sums.train}\n  check:"),
    ),
    right=MINIMAL_RECIPE,
)


def topological_order(
    recipe: TypedRecipe, refs: Mapping[tuple[str, str], Ref], diagnostics: Diagnostics
) -> tuple[str, ...]:
    """Everything after what it is made from; as written, where that leaves a choice."""
    names = [f"model:{name}" for name in recipe.models]
    names += [f"dataset:{name}" for name in recipe.datasets]
    names += [f"stage:{name}" for name in recipe.stages]
    needs: dict[str, dict[str, None]] = {name: {} for name in names}
    for (owner, _), ref in refs.items():
        if ref.node in needs:
            needs[owner][ref.node] = None
    _add_gate_inputs(recipe, needs)
    _add_gate_barriers(recipe, needs)
    ordered, circle = _depth_first_sort(names, needs)
    if circle:
        section = {"model": "models", "dataset": "datasets", "stage": "stages"}
        thing, _, name = circle[0].partition(":")
        chain = " -> ".join(node.partition(":")[2] for node in (*circle, circle[0]))
        gated = any(isinstance(recipe.stages.get(node.partition(":")[2]), Gate) for node in circle)
        help = "a gate holds back every stage written after it" if gated else ""
        diagnostics.add(
            CIRCULAR_REFERENCE, (section[thing], name), f"these need each other: {chain}", key=True, help=help
        )
    return tuple(ordered)


def _add_gate_inputs(recipe: TypedRecipe, needs: dict[str, dict[str, None]]) -> None:
    """A gate needs the evals whose metrics it names."""
    for name, stage in recipe.stages.items():
        if not isinstance(stage, Gate):
            continue
        for condition in stage.gate:
            for metric in (condition.metric, condition.better_than):
                node = f"stage:{(metric or '').partition('.')[0]}"
                if node in needs and node != f"stage:{name}":
                    needs[f"stage:{name}"][node] = None


def _add_gate_barriers(recipe: TypedRecipe, needs: dict[str, dict[str, None]]) -> None:
    """What is written after a gate waits for it; one edge to the nearest does for those before it too."""
    gate: str | None = None
    for name, stage in recipe.stages.items():
        if gate is not None:
            needs[f"stage:{name}"][f"stage:{gate}"] = None
        if isinstance(stage, Gate):
            gate = name


def _depth_first_sort(
    names: list[str], needs: Mapping[str, Mapping[str, None]]
) -> tuple[list[str], list[str]]:
    """A stable topological order without recursion, and a circle if there is one."""
    done: dict[str, None] = {}
    for start in names:
        trail: list[str] = [start]
        on_trail = {start}
        while trail:
            node = trail[-1]
            if node in done:
                on_trail.discard(trail.pop())
                continue
            missing = next((n for n in needs[node] if n not in done), None)
            if missing is None:
                done[node] = None
            elif missing in on_trail:
                return list(done), trail[trail.index(missing) :]
            else:
                trail.append(missing)
                on_trail.add(missing)
    return list(done), []
