"""Sorts models, datasets and stages topologically, and reports circular references."""

from collections.abc import Mapping

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.parsing.typed_recipe import TypedRecipe
from posttrain.compiler.resolution.references import Ref
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Gate

CIRCULAR_REFERENCE = Code(
    "PT0303",
    "circular reference",
    "error",
    "Each of these depends on the next one, so none of them can run first. Every stage written after a gate"
    " depends on the gate, except the stages that the gate itself needs.",
    wrong=minimal_recipe(
        ("model: base", "model: again"),
        ("  check:", "  again: {train: sft, model: sft, data: sums.train}\n  check:"),
    ),
    right=MINIMAL_RECIPE,
)


def topological_order(
    recipe: TypedRecipe, refs: Mapping[tuple[str, str], Ref], diagnostics: Diagnostics
) -> tuple[str, ...]:
    """A topological order of all nodes, as close as possible to the order in the recipe."""
    names = [f"model:{name}" for name in recipe.models]
    names += [f"dataset:{name}" for name in recipe.datasets]
    names += [f"stage:{name}" for name in recipe.stages]
    needs: dict[str, dict[str, None]] = {name: {} for name in names}
    for (owner, _), ref in refs.items():
        if ref.node in needs:
            needs[owner][ref.node] = None
    _add_gate_inputs(recipe, needs)
    _add_gate_barriers(recipe, needs)
    ordered, cycle = _depth_first_sort(names, needs)
    if cycle:
        section = {"model": "models", "dataset": "datasets", "stage": "stages"}
        thing, _, name = cycle[0].partition(":")
        chain = " -> ".join(node.partition(":")[2] for node in (*cycle, cycle[0]))
        diagnostics.add(CIRCULAR_REFERENCE, (section[thing], name), f"circular reference: {chain}", key=True)
    return tuple(ordered)


def _add_gate_inputs(recipe: TypedRecipe, needs: dict[str, dict[str, None]]) -> None:
    """A gate depends on the evals whose metrics it names."""
    for name, stage in recipe.stages.items():
        if not isinstance(stage, Gate):
            continue
        for condition in stage.gate:
            for metric in (condition.metric, condition.better_than):
                node = f"stage:{(metric or '').partition('.')[0]}"
                if node in needs and node != f"stage:{name}":
                    needs[f"stage:{name}"][node] = None


def _add_gate_barriers(recipe: TypedRecipe, needs: dict[str, dict[str, None]]) -> None:
    """Stages after a gate depend on it. An edge to the nearest gate is enough, because gates are chained."""
    gates: dict[str, set[str]] = {}  # with all that each needs
    for name, stage in recipe.stages.items():
        node = f"stage:{name}"
        needed = _closure(node, needs) if isinstance(stage, Gate) else set[str]()
        barrier = next((gate for gate in reversed(gates) if node not in gates[gate]), None)
        if barrier is not None:
            needs[node][barrier] = None
        if isinstance(stage, Gate):
            gates[node] = needed | (gates[barrier] if barrier else set[str]())


def _closure(node: str, needs: Mapping[str, Mapping[str, None]]) -> set[str]:
    """All nodes that a node depends on."""
    found: set[str] = set()
    ahead = [node]
    while ahead:
        new = needs[ahead.pop()].keys() - found
        found |= new
        ahead += new
    return found


def _depth_first_sort(
    names: list[str], needs: Mapping[str, Mapping[str, None]]
) -> tuple[list[str], list[str]]:
    """A stable topological order without recursion, and a cycle if there is one."""
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
