"""Creates the statement about a product or a recipe."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from posttrain.runtime.provenance.provenance_error import ProvenanceError
from posttrain.runtime.provenance.step_provenance import ancestors, hardware_of, run_of, step_record, times_of
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.key_diff import describe_change
from posttrain.runtime.store.launch_record import launch_record
from posttrain.runtime.store.products import Product
from posttrain.runtime.store.runs import find_step_key, list_runs
from posttrain.spec.lockfile import EntryId
from posttrain.spec.provenance_statement import (
    RECIPE_BUILD,
    STEP_BUILD,
    BuildDefinition,
    Builder,
    Dependency,
    ExternalParameters,
    InternalParameters,
    Metadata,
    Provenance,
    RecipeIdentity,
    RunDetails,
    Statement,
    Subject,
)
from posttrain.spec.record import record
from posttrain.spec.version import VERSION

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan, Step


@record(kw_only=True)
class Source:
    """Where a plan comes from: the recipe artifact, the lock, and what was chosen."""

    name: str
    # The digest of the manifest of the recipe artifact, as sha256:HEX.
    digest: str
    lock: Mapping[EntryId, str]
    profiles: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


def recipe_statement(source: Source, repository: str) -> Statement:
    """The statement about a recipe artifact: its publisher, its lock."""
    return Statement(
        subject=(artifact_subject(repository, source.digest),),
        predicate=Provenance(
            build_definition=BuildDefinition(
                build_type=RECIPE_BUILD,
                external_parameters=_parameters(source, None),
                resolved_dependencies=tuple(_lock_dependencies(source.lock)),
            ),
            run_details=RunDetails(builder=_builder(), metadata=Metadata()),
        ),
    )


def product_statement(
    plan: "Plan",
    step: "Step",
    home: Home,
    source: Source,
    artifact: Subject,
    published: Mapping[str, str],
) -> Statement:
    """The statement about an artifact with the product of a step, which the home must have.

    `published` are the sha256 of the files in the artifact. Raises `ProvenanceError`.
    """
    product = _find_product(step, home)
    if dict(product.digests) != dict(published):
        message = f"the artifact has other files than the product of `{step.id}` in {home.root}"
        raise ProvenanceError(message, "publish the product again with `recipe push`")
    files = tuple(Subject(name=name, digest={"sha256": value}) for name, value in product.digests.items())
    steps = tuple(_step_dependency(one, home) for one in ancestors(plan, step.id))
    start, end = times_of(product)
    return Statement(
        subject=(artifact, *files),
        predicate=Provenance(
            build_definition=BuildDefinition(
                build_type=STEP_BUILD,
                external_parameters=_parameters(source, step.id),
                internal_parameters=InternalParameters(key=step.key, key_parts=dict(step.key_parts)),
                resolved_dependencies=(*_lock_dependencies(source.lock), *steps),
            ),
            run_details=RunDetails(
                builder=_builder(),
                metadata=Metadata(invocation_id=run_of(home, step), started_on=start, finished_on=end),
                posttrain_launch=product.manifest.launch,
                posttrain_hardware=hardware_of(product),
            ),
        ),
    )


def artifact_subject(repository: str, digest: str) -> Subject:
    return Subject(name=repository, digest={"sha256": digest.removeprefix("sha256:")})


def _builder() -> Builder:
    return Builder(version={"posttrain": VERSION})


def _parameters(source: Source, step: str | None) -> ExternalParameters:
    digest = {"sha256": source.digest.removeprefix("sha256:")}
    return ExternalParameters(
        recipe=RecipeIdentity(name=source.name, digest=digest),
        step=step,
        profiles=source.profiles,
        settings=source.settings,
    )


def _find_product(step: "Step", home: Home) -> Product:
    if not step.pinned:
        message = f"`{step.id}` has an input that is not pinned, so its key does not prove its product"
        raise ProvenanceError(message, "pin the inputs with `recipe lock`, and run with --locked")
    product = home.store.find(step.key)
    if product is None:
        raise ProvenanceError(
            f"{home.root} has no product of `{step.id}` with the key of this recipe and lock"
            f"{_closest_difference(step, home)}",
            "run the recipe with --locked first, with the same --profile and --set",
        )
    if product.manifest.adopted is not None:
        message = f"the product of `{step.id}` is adopted: it was made for another key"
        raise ProvenanceError(message, "run the step again to sign its product")
    return product


def _closest_difference(step: "Step", home: Home) -> str:
    """How the newest product of the same step differs."""
    for run in reversed(list_runs(home)):
        key = find_step_key(run, step.id)
        product = home.store.find_manifest(key) if key else None
        if product is not None:
            parts = differing_parts(step.key_parts, product.manifest.key_parts)
            texts = [describe_change(one, product.manifest.key_values, step.key_values) for one in parts[:3]]
            return f"; the one that it has differs in {'; '.join(texts)}" if texts else ""
    return ""


def differing_parts(one: Mapping[str, str], other: Mapping[str, str]) -> Sequence[str]:
    """The names of the parts in which two keys differ; inputs last, because they follow from other steps."""
    found = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return sorted(found, key=lambda name: (name.startswith("input."), name))


def _lock_dependencies(lock: Mapping[EntryId, str]) -> Iterator[Dependency]:
    for (kind, name), value in sorted(lock.items()):
        match kind:
            case "file":
                yield Dependency(name=f"file {name}", digest={"sha256": value})
            case "stack":
                yield Dependency(name=f"stack {name}", uri=f"pkg:pypi/{name}@{value}")
            case "image":
                digest = value.partition(" ")[0].rpartition("=")[2]
                yield Dependency(name=f"image {name}", digest={"sha256": digest.removeprefix("sha256:")})
            case _:
                at = name.partition("@")[0]
                prefix = "datasets/" if kind == "dataset" else ""
                uri = f"pkg:huggingface/{prefix}{at}@{value}"
                yield Dependency(name=f"{kind} {name}", uri=uri, digest={"gitCommit": value})


def _step_dependency(step: "Step", home: Home) -> Dependency:
    """An earlier step. A home that got the product from a cache can lack those before it."""
    product = home.store.find_manifest(step.key)
    if product is None:
        launch = launch_record(step).model_dump()
        return Dependency(name=f"step {step.id}", annotations={"key": step.key, "launch": launch})
    known = step_record(step, product)
    assert known.contents is not None, "the home has the product"
    return Dependency(
        name=f"step {step.id}",
        digest={"sha256": known.contents},
        annotations={
            "key": step.key,
            "launch": product.manifest.launch.model_dump(),
            "hardware": dict(known.hardware or {}),
        },
    )
