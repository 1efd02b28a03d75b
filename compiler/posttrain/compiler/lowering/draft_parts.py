"""Drafts, which are steps without a key, and helpers to build them."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from posttrain.compiler.environments.checked_environment import CheckedEnvironment
from posttrain.compiler.resolution.name_resolution import Ref
from posttrain.compiler.rewards.graph import RewardGraph
from posttrain.compiler.seeds import seed_for
from posttrain.compiler.semantic_checks import CheckedRecipe
from posttrain.compiler.stages.inference import InferenceConfig
from posttrain.spec.extension import Extension, ExtensionKind
from posttrain.spec.plan import Launch, Resources, StepInput, UserFile
from posttrain.spec.record import record
from posttrain.spec.step_params.generation_params import EndpointAccess
from posttrain.spec.step_params.step_parameters import StepParams

Json = Any


@record(kw_only=True)
class Draft:
    """A step without a key."""

    kind: str
    entry: tuple[ExtensionKind, str]
    params: StepParams
    # Parameters that change speed, memory or reports but not the result.
    neutral: frozenset[str] = frozenset()
    # The parts of the launch that belong in the key: `micro_batch_size`, `processes`.
    launch_parts: Callable[[Launch], frozenset[str]] = lambda _: frozenset()
    used: tuple[Extension, ...] = ()
    # Distributions that the step needs in addition to those of the extensions. Their versions are in the key.
    stack: tuple[str, ...] = ()
    inputs: Mapping[str, StepInput] = field(default_factory=dict[str, StepInput])
    files: Mapping[str, UserFile] = field(default_factory=dict[str, UserFile])
    expect: Mapping[str, Json] = field(default_factory=dict[str, Json])
    # Environment variables with secrets that the step may read.
    secrets: tuple[str, ...] = ()
    # False if an input is not pinned: then the step never uses a cached product.
    pinned: bool = True
    resources: Resources = field(default_factory=Resources)
    launch: Launch = field(default_factory=Launch)
    estimate: Mapping[str, Json] | None = None


def step_id(thing: str, name: str) -> str:
    return {"model": f"models.{name}", "dataset": f"datasets.{name}"}.get(thing, name)


def step_input(ref: Ref) -> StepInput:
    return StepInput(step=step_id(ref.kind, ref.name), part=ref.part, output=ref.output)


def step_inputs(name: str, checked: CheckedRecipe, *roles: str) -> dict[str, StepInput]:
    refs = checked.resolved.refs
    return {
        role: step_input(refs[f"stage:{name}", role]) for role in roles if (f"stage:{name}", role) in refs
    }


def reward_model_roles(name: str, checked: CheckedRecipe) -> list[str]:
    """The roles of the models in the stage's reward graph."""
    roles = checked.resolved.by_owner.get(f"stage:{name}", ())
    return [role for role in roles if role.startswith("reward:")]


def stage_seed(name: str, checked: CheckedRecipe) -> int:
    return seed_for(checked.resolved.recipe.seed, f"stage:{name}")


def compute_resources(checked: CheckedRecipe) -> Resources:
    """The resources of a computing step. The default is one core, because the number of threads changes the
    order of floating-point sums and so the last bits of a result."""
    return Resources(cpus=checked.resolved.recipe.hardware.cpus or 1)


def with_reward(draft: Draft, graph: RewardGraph | None) -> Draft:
    """The draft of a step with this reward graph among its parameters: with its files and endpoints."""
    if graph is None:
        return draft
    network = draft.resources.network or bool(graph.endpoints)
    return replace(
        draft,
        neutral=draft.neutral | {"access"},
        used=(*draft.used, *graph.ops),
        files={**draft.files, **graph.files},
        secrets=graph.secrets,
        resources=draft.resources.model_copy(update={"network": network}),
    )


def with_streamed_rows(draft: Draft, name: str, checked: CheckedRecipe) -> Draft:
    """The draft of a training stage: if its data is streamed, the stage reads the source itself."""
    ref = checked.resolved.refs[f"stage:{name}", "data"]
    rows = checked.rows.get(ref.name) if ref.kind == "dataset" else None
    if rows is None or rows.window_rows is None or rows.source is None:
        return draft
    network = draft.resources.network or rows.source.network
    return replace(
        draft,
        secrets=tuple(sorted({*draft.secrets, *rows.source.secrets})),
        resources=draft.resources.model_copy(update={"network": network}),
    )


def endpoint_access(graph: RewardGraph | None, config: InferenceConfig) -> dict[str, EndpointAccess]:
    """The connection settings of all endpoints of a step that generates."""
    return {**(graph.endpoint_access() if graph else {}), **config.endpoint_access()}


def with_environment(draft: Draft, environment: CheckedEnvironment | None) -> Draft:
    """The draft of a step with this environment among its parameters: with its files."""
    if environment is None:
        return draft
    return replace(
        draft,
        neutral=draft.neutral | {"hosting"},
        used=(*draft.used, environment.kind),
        files={**draft.files, **environment.files},
    )


def with_inference(name: str, draft: Draft, config: InferenceConfig, checked: CheckedRecipe) -> Draft:
    """The draft of a step that generates: with the products of its models, or access to their endpoints."""
    shots = ("few_shot",) if config.prompt_config.shots else ()
    return replace(
        draft,
        neutral=draft.neutral | {"access"},
        used=(*draft.used, *config.engines),
        inputs={**step_inputs(name, checked, *config.model_roles, *shots), **draft.inputs},
        files={**draft.files, **config.prompt_config.files},
        secrets=tuple(sorted({*draft.secrets, *config.secrets})),
        resources=draft.resources.model_copy(
            update={"network": draft.resources.network or bool(config.endpoints)}
        ),
    )
