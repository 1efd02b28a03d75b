"""Fourth pass: what each name refers to, and an order in which everything can be made."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import product
from typing import Literal

from posttrain.compiler.examples import MINIMAL, minimal
from posttrain.compiler.findings import Findings
from posttrain.compiler.rewards.scorers import models_of
from posttrain.compiler.shape import Shaped
from posttrain.compiler.suggest import hint
from posttrain.compiler.tree import Path
from posttrain.spec.diagnostic import Code
from posttrain.spec.extension import Catalog
from posttrain.spec.record import record
from posttrain.spec.stages import AnyStage, Evaluate, Export, Gate, Generate, Script, Train

UNKNOWN_NAME = Code(
    "PT0301",
    "a name that nothing has",
    "error",
    "A reference names a declaration or a stage of this recipe; a part of a dataset is written"
    " NAME.PART, a metric STAGE.METRIC.",
    wrong=minimal(("model: base", "model: bass")),
    right=MINIMAL,
)
WRONG_KIND = Code(
    "PT0302",
    "a name for something else",
    "error",
    "The name exists, but stands for a thing that cannot be used here: a model where rows are wanted,"
    " say, or an eval where weights are.",
    wrong=minimal(("data: sums.train", "data: base")),
    right=MINIMAL,
)
CIRCLE = Code(
    "PT0303",
    "things that need each other",
    "error",
    "Each of these is made from the next, so none can be made first.",
    wrong=minimal(
        ("model: base", "model: again"),
        ("  check:", "  again: {train: sft, model: sft, data: sums.train}\n  check:"),
    ),
    right=MINIMAL,
)
CODES = (UNKNOWN_NAME, WRONG_KIND, CIRCLE)

Thing = Literal["model", "dataset", "endpoint", "stage"]
Role = Literal["weights", "rows", "writer", "anything"]


@record
class Ref:
    """A resolved reference."""

    thing: Thing
    name: str
    part: str | None = None

    @property
    def node(self) -> str:
        return f"{self.thing}:{self.name}"


@record
class Use:
    """A reference as written: where, in what role, and what it should stand for."""

    owner: str
    role: str
    path: Path
    text: str
    wanted: Role


@record(kw_only=True)
class Named:
    """A recipe whose references are resolved: (owner, role) to what is meant."""

    recipe: Shaped
    refs: Mapping[tuple[str, str], Ref]
    # Models, datasets and stages as `thing:name`, each after all that it is made from.
    order: tuple[str, ...]

    @cached_property
    def by_owner(self) -> Mapping[str, Mapping[str, Ref]]:
        """What each owner refers to, by role."""
        found: dict[str, dict[str, Ref]] = {}
        for (owner, role), ref in self.refs.items():
            found.setdefault(owner, {})[role] = ref
        return found


def resolve(recipe: Shaped, catalog: Catalog, findings: Findings) -> Named:
    refs = _resolved(_uses(recipe), recipe, findings)
    refs |= _measured(recipe, refs)
    refs |= _scored(recipe, _resolved(_reward_uses(recipe, catalog), recipe, findings))
    return Named(recipe=recipe, refs=refs, order=_order(recipe, refs, findings))


def _resolved(uses: Iterator[Use], recipe: Shaped, findings: Findings) -> dict[tuple[str, str], Ref]:
    found = {(use.owner, use.role): _resolve(use, recipe, findings) for use in uses}
    return {use: ref for use, ref in found.items() if ref is not None}


def _uses(recipe: Shaped) -> Iterator[Use]:
    for name, dataset in recipe.datasets.items():
        if isinstance(dataset.from_, str):
            path: Path = ("datasets", name, "from")
            yield Use(f"dataset:{name}", "from", path, dataset.from_, "rows")
        yield from _step_uses(recipe, name)
    for name, stage in recipe.stages.items():
        yield from _stage_uses(name, stage)


def _step_uses(recipe: Shaped, name: str) -> Iterator[Use]:
    """The other datasets that the steps `join` and `mix`, and those that look `against` one, read."""
    for index, step in enumerate(recipe.datasets[name].steps):
        owner, path = f"dataset:{name}", ("datasets", name, "steps", index)
        join, mix = step.get("join"), step.get("mix")
        if isinstance(join, dict) and isinstance(join.get("with"), str):
            yield Use(owner, f"{index}.with", (*path, "join", "with"), join["with"], "rows")
        for step_name, value in step.items():
            if isinstance(value, dict) and isinstance(value.get("against"), str):
                where = (*path, step_name, "against")
                yield Use(owner, f"{index}.against", where, value["against"], "rows")
        if isinstance(mix, dict):
            for other in mix:
                yield Use(owner, f"{index}.{other}", (*path, "mix", other), str(other), "rows")


def _stage_uses(name: str, stage: AnyStage) -> Iterator[Use]:
    def use(role: str, text: str, wanted: Role, *path: str) -> Use:
        return Use(f"stage:{name}", role, ("stages", name, *(path or (role,))), text, wanted)

    match stage:
        case Train():
            yield use("model", stage.model, "weights")
            yield use("data", stage.data, "rows")
            if stage.reference is not None:
                yield use("reference", stage.reference, "weights")
        case Evaluate() | Generate():
            yield from (Use(f"stage:{name}", *of, "writer") for of in _asked(name, stage))
            yield use("data", stage.data, "rows")
            yield from (use("shots", s.data, "rows", "shots", "data") for s in (stage.shots,) if s)
        case Export():
            yield use("model", stage.export, "weights", "export")
        case Script():
            yield from (use(role, text, "anything", "inputs", role) for role, text in stage.inputs.items())
        case Gate():  # its metrics are resolved with the evals that make them
            return


def _asked(name: str, stage: Evaluate | Generate) -> Iterator[tuple[str, Path, str]]:
    return ((role, path, text) for role, text, path in writers_of(name, stage))


def writers_of(name: str, stage: Evaluate | Generate) -> list[tuple[str, str, Path]]:
    """The models that a stage asks: the role of each, its name, and where that is written."""
    path: Path = ("stages", name)
    if isinstance(stage, Generate):
        found: list[tuple[str, str, Path]] = [("model", stage.generate, (*path, "generate"))]
        if stage.dialogue is not None:
            found.append(("with", stage.dialogue.with_, (*path, "dialogue", "with")))
        return found
    if isinstance(stage.eval, str):
        return [("model", stage.eval, (*path, "eval"))]
    return [(f"model:{text}", text, (*path, "eval", index)) for index, text in enumerate(stage.eval)]


def _measured(recipe: Shaped, refs: Mapping[tuple[str, str], Ref]) -> dict[tuple[str, str], Ref]:
    """What a training stage reads for the evals that it makes on the way: the rows of each."""
    found: dict[tuple[str, str], Ref] = {}
    for name, stage in recipe.stages.items():
        asked = stage.evaluate.evals if isinstance(stage, Train) and stage.evaluate is not None else ()
        for measure, role in product(asked, ("data", "shots")):
            ref = refs.get((f"stage:{measure}", role))
            if ref is not None:
                found[f"stage:{name}", f"{measure}.{role}"] = ref
    return found


def _reward_uses(recipe: Shaped, catalog: Catalog) -> Iterator[Use]:
    """The models that rewards score with, each under its name."""
    for name, reward in recipe.rewards.items():
        for path, text in models_of(reward, ("rewards", name), catalog):
            yield Use(f"reward:{name}", text, path, text, "weights")


def _scored(recipe: Shaped, found: Mapping[tuple[str, str], Ref]) -> dict[tuple[str, str], Ref]:
    """What stages read since their rewards, or those of the evals made on their way, score with it."""
    refs: dict[tuple[str, str], Ref] = {}
    for name, stage in recipe.stages.items():
        during = stage.evaluate.evals if isinstance(stage, Train) and stage.evaluate is not None else ()
        for before, scored in (("", stage), *((f"{each}.", recipe.stages.get(each)) for each in during)):
            owner = f"reward:{getattr(scored, 'reward', None) or ''}"
            refs |= {
                (f"stage:{name}", f"{before}reward:{text}"): ref
                for (of, text), ref in found.items()
                if of == owner
            }
    return refs


def _resolve(use: Use, recipe: Shaped, findings: Findings) -> Ref | None:
    name, _, part = use.text.partition(".")
    if name in recipe.broken or use.text in recipe.broken:
        return None
    things: dict[Thing, Mapping[str, object]] = {
        "model": recipe.models,
        "dataset": recipe.datasets,
        "endpoint": recipe.endpoints,
        "stage": recipe.stages,
    }
    for thing, declared in things.items():
        if name in declared:
            ref = Ref(thing, name, part or None)
            return ref if _fits(ref, use, recipe, findings) else None
    legal = list(recipe.broken) + [
        n for thing, declared in things.items() for n in declared if _suits(Ref(thing, n), use, recipe)
    ]
    help, meant = hint(name, legal, what="names that fit here")
    replace = f"{meant}.{part}" if meant and part else meant
    findings.add(UNKNOWN_NAME, use.path, f"nothing is named `{name}`", help=help, replace=replace)
    return None


def _suits(ref: Ref, use: Use, recipe: Shaped) -> bool:
    makes = _makes(ref, recipe)
    if f"{ref.thing}:{ref.name}" == use.owner:
        return False
    match use.wanted:
        case "weights":
            return makes == "weights"
        case "rows":
            return makes == "rows"
        case "writer":
            return makes == "weights" or ref.thing == "endpoint"
        case "anything":
            return makes != "nothing"


def _makes(ref: Ref, recipe: Shaped) -> Literal["weights", "rows", "figures", "files", "nothing"]:
    match ref.thing:
        case "model":
            return "weights"
        case "dataset":
            return "rows"
        case "endpoint":
            return "nothing"
        case "stage":
            match recipe.stages[ref.name]:
                case Train() | Export():
                    return "weights"
                case Generate():
                    return "rows"
                case Evaluate() | Gate():
                    return "figures"
                case Script():
                    return "files"


_WORDS = {
    "weights": "a model is",
    "rows": "rows are",
    "writer": "a model or an endpoint is",
    "anything": "a product is",
}


def _fits(ref: Ref, use: Use, recipe: Shaped, findings: Findings) -> bool:
    if _suits(ref, use, recipe):
        return True
    if ref.node == use.owner:
        findings.add(CIRCLE, use.path, f"`{ref.name}` names itself")
        return False
    what = f"{ref.thing} `{ref.name}`"
    makes = {"weights": "a model", "rows": "rows", "figures": "figures", "files": "files"}
    given = makes.get(_makes(ref, recipe), "text")
    message = f"{_WORDS[use.wanted]} wanted here; the {what} gives {given}"
    findings.add(WRONG_KIND, use.path, message)
    return False


def _order(recipe: Shaped, refs: Mapping[tuple[str, str], Ref], findings: Findings) -> tuple[str, ...]:
    """Everything after what it is made from; as written, where that leaves a choice."""
    names = [f"model:{name}" for name in recipe.models]
    names += [f"dataset:{name}" for name in recipe.datasets]
    names += [f"stage:{name}" for name in recipe.stages]
    needs: dict[str, dict[str, None]] = {name: {} for name in names}
    for (owner, _), ref in refs.items():
        if ref.node in needs:
            needs[owner][ref.node] = None
    _gate_needs(recipe, needs)
    ordered, circle = _sorted(names, needs)
    if circle:
        section = {"model": "models", "dataset": "datasets", "stage": "stages"}
        thing, _, name = circle[0].partition(":")
        chain = " -> ".join(node.partition(":")[2] for node in (*circle, circle[0]))
        findings.add(CIRCLE, (section[thing], name), f"these need each other: {chain}", key=True)
    return tuple(ordered)


def _gate_needs(recipe: Shaped, needs: dict[str, dict[str, None]]) -> None:
    """A gate needs the evals whose metrics it names."""
    for name, stage in recipe.stages.items():
        if not isinstance(stage, Gate):
            continue
        for condition in stage.gate:
            for metric in (condition.metric, condition.better_than):
                node = f"stage:{(metric or '').partition('.')[0]}"
                if node in needs and node != f"stage:{name}":
                    needs[f"stage:{name}"][node] = None


def _sorted(names: list[str], needs: Mapping[str, Mapping[str, None]]) -> tuple[list[str], list[str]]:
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
