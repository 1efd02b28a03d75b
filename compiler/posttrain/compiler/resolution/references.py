"""Finds the references in a recipe: where they are, their role, and what they must refer to."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Literal

from posttrain.compiler.parsing.typed_recipe import TypedRecipe
from posttrain.compiler.rewards.reward_model_refs import referenced_models
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.artifact_stages import Export, Generate, Script
from posttrain.spec.eval_stages import Benchmark, Evaluate, Gate
from posttrain.spec.extension import Catalog
from posttrain.spec.recipe import AnyStage
from posttrain.spec.record import record
from posttrain.spec.step_params.train_params import HELD_OUT_ROLE
from posttrain.spec.train_stage import Train

NodeKind = Literal["model", "dataset", "endpoint", "stage"]
ExpectedKind = Literal["weights", "rows", "writer", "anything"]


@record
class Ref:
    """A resolved reference."""

    kind: NodeKind
    name: str
    part: str | None = None
    # The declared output of a script stage; None for its whole product.
    output: str | None = None
    # Whether the recipe names the output, which it may omit if only one fits.
    is_output_named: bool = False

    @property
    def node(self) -> str:
        return f"{self.kind}:{self.name}"

    @property
    def product(self) -> str:
        """The node, with the output of a script stage: identifies a model."""
        return f"{self.node}.{self.output}" if self.output else self.node

    @property
    def text(self) -> str:
        """The reference as the recipe has it."""
        named = self.part or (self.output if self.is_output_named else None)
        return f"{self.name}.{named}" if named else self.name


@record
class ReferenceSite:
    """An unresolved reference: its place, its role, and the kind of product that it must refer to."""

    owner: str
    role: str
    path: KeyPath
    text: str
    expected: ExpectedKind


def find_references(recipe: TypedRecipe) -> Iterator[ReferenceSite]:
    for name, dataset in recipe.datasets.items():
        if isinstance(dataset.from_, str):
            path: KeyPath = ("datasets", name, "from")
            yield ReferenceSite(f"dataset:{name}", "from", path, dataset.from_, "rows")
        yield from _step_references(recipe, name)
    for name, stage in recipe.stages.items():
        yield from _stage_references(name, stage)


def _step_references(recipe: TypedRecipe, name: str) -> Iterator[ReferenceSite]:
    """The other datasets that the steps `join`, `mix` and those with `against` read."""
    for index, step in enumerate(recipe.datasets[name].steps):
        owner, path = f"dataset:{name}", ("datasets", name, "steps", index)
        join, mix = step.get("join"), step.get("mix")
        if isinstance(join, dict) and isinstance(join.get("with"), str):
            yield ReferenceSite(owner, f"{index}.with", (*path, "join", "with"), join["with"], "rows")
        for step_name, value in step.items():
            if isinstance(value, dict) and isinstance(value.get("against"), str):
                where = (*path, step_name, "against")
                yield ReferenceSite(owner, f"{index}.against", where, value["against"], "rows")
        if isinstance(mix, dict):
            for other in mix:
                yield ReferenceSite(owner, f"{index}.{other}", (*path, "mix", other), str(other), "rows")


def _stage_references(name: str, stage: AnyStage) -> Iterator[ReferenceSite]:
    def use(role: str, text: str, expected: ExpectedKind, *path: str) -> ReferenceSite:
        return ReferenceSite(f"stage:{name}", role, ("stages", name, *(path or (role,))), text, expected)

    match stage:
        case Train():
            yield use("model", stage.model, "weights")
            yield use("data", stage.data, "rows")
            if stage.reference is not None:
                yield use("reference", stage.reference, "weights")
            if stage.evaluate is not None and stage.evaluate.data is not None:
                yield use(HELD_OUT_ROLE, stage.evaluate.data, "rows", "evaluate", "data")
        case Evaluate() | Generate():
            yield from (
                ReferenceSite(f"stage:{name}", *of, "writer") for of in _inference_references(name, stage)
            )
            yield use("data", stage.data, "rows")
            yield from (use("few_shot", s.data, "rows", "few_shot", "data") for s in (stage.few_shot,) if s)
        case Benchmark():
            yield from (
                ReferenceSite(f"stage:{name}", *of, "writer") for of in _inference_references(name, stage)
            )
        case Export():
            yield use("model", stage.export, "weights", "export")
        case Script():
            yield from (use(role, text, "anything", "inputs", role) for role, text in stage.inputs.items())
        case Gate():  # the check of the gate resolves its metrics
            return


def _inference_references(
    name: str, stage: Evaluate | Generate | Benchmark
) -> Iterator[tuple[str, KeyPath, str]]:
    return ((role, path, text) for role, text, path in inference_models(name, stage))


def inference_models(name: str, stage: Evaluate | Generate | Benchmark) -> list[tuple[str, str, KeyPath]]:
    """The models with which a stage generates: role, name and path of each reference."""
    path: KeyPath = ("stages", name)
    if isinstance(stage, Generate):
        found: list[tuple[str, str, KeyPath]] = [("model", stage.generate, (*path, "generate"))]
        if stage.dialogue is not None:
            found.append(("with", stage.dialogue.with_, (*path, "dialogue", "with")))
        return found
    verb = "benchmark" if isinstance(stage, Benchmark) else "eval"
    names = stage.benchmark if isinstance(stage, Benchmark) else stage.eval
    if isinstance(names, str):
        return [("model", names, (*path, verb))]
    return [(f"model:{text}", text, (*path, verb, index)) for index, text in enumerate(names)]


def inloop_eval_refs(recipe: TypedRecipe, refs: Mapping[tuple[str, str], Ref]) -> dict[tuple[str, str], Ref]:
    """The rows that a training stage reads for its in-loop evals."""
    found: dict[tuple[str, str], Ref] = {}
    for name, stage in recipe.stages.items():
        evals = stage.evaluate.evals if isinstance(stage, Train) and stage.evaluate is not None else ()
        for measure, role in product(evals, ("data", "few_shot")):
            ref = refs.get((f"stage:{measure}", role))
            if ref is not None:
                found[f"stage:{name}", f"{measure}.{role}"] = ref
    return found


def reward_references(recipe: TypedRecipe, catalog: Catalog) -> Iterator[ReferenceSite]:
    """The models that reward graphs score with, by name."""
    for name, reward in recipe.rewards.items():
        for path, text in referenced_models(reward, ("rewards", name), catalog):
            yield ReferenceSite(f"reward:{name}", text, path, text, "weights")


def reward_model_refs(
    recipe: TypedRecipe, found: Mapping[tuple[str, str], Ref]
) -> dict[tuple[str, str], Ref]:
    """The models that stages read because their rewards, or those of their in-loop evals, score with them."""
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
