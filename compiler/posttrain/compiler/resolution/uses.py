"""Where a recipe names its own things: each reference as written, in its role."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Literal

from posttrain.compiler.reading.shape import Shaped
from posttrain.compiler.rewards.scorers import models_of
from posttrain.compiler.text.tree import Path
from posttrain.spec.extension import Catalog
from posttrain.spec.making import Export, Generate, Script
from posttrain.spec.measuring import Benchmark, Evaluate, Gate
from posttrain.spec.recipe import AnyStage
from posttrain.spec.record import record
from posttrain.spec.training import Train

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


def uses_of(recipe: Shaped) -> Iterator[Use]:
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
        case Benchmark():
            yield from (Use(f"stage:{name}", *of, "writer") for of in _asked(name, stage))
        case Export():
            yield use("model", stage.export, "weights", "export")
        case Script():
            yield from (use(role, text, "anything", "inputs", role) for role, text in stage.inputs.items())
        case Gate():  # its metrics are resolved with the evals that make them
            return


def _asked(name: str, stage: Evaluate | Generate | Benchmark) -> Iterator[tuple[str, Path, str]]:
    return ((role, path, text) for role, text, path in writers_of(name, stage))


def writers_of(name: str, stage: Evaluate | Generate | Benchmark) -> list[tuple[str, str, Path]]:
    """The models that a stage asks: the role of each, its name, and where that is written."""
    path: Path = ("stages", name)
    if isinstance(stage, Generate):
        found: list[tuple[str, str, Path]] = [("model", stage.generate, (*path, "generate"))]
        if stage.dialogue is not None:
            found.append(("with", stage.dialogue.with_, (*path, "dialogue", "with")))
        return found
    verb = "benchmark" if isinstance(stage, Benchmark) else "eval"
    given = stage.benchmark if isinstance(stage, Benchmark) else stage.eval
    if isinstance(given, str):
        return [("model", given, (*path, verb))]
    return [(f"model:{text}", text, (*path, verb, index)) for index, text in enumerate(given)]


def measured(recipe: Shaped, refs: Mapping[tuple[str, str], Ref]) -> dict[tuple[str, str], Ref]:
    """What a training stage reads for the evals that it makes on the way: the rows of each."""
    found: dict[tuple[str, str], Ref] = {}
    for name, stage in recipe.stages.items():
        asked = stage.evaluate.evals if isinstance(stage, Train) and stage.evaluate is not None else ()
        for measure, role in product(asked, ("data", "shots")):
            ref = refs.get((f"stage:{measure}", role))
            if ref is not None:
                found[f"stage:{name}", f"{measure}.{role}"] = ref
    return found


def reward_uses(recipe: Shaped, catalog: Catalog) -> Iterator[Use]:
    """The models that rewards score with, each under its name."""
    for name, reward in recipe.rewards.items():
        for path, text in models_of(reward, ("rewards", name), catalog):
            yield Use(f"reward:{name}", text, path, text, "weights")


def scored_with(recipe: Shaped, found: Mapping[tuple[str, str], Ref]) -> dict[tuple[str, str], Ref]:
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
