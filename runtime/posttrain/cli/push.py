"""`recipe push`: publish a recipe or a product in a registry."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from posttrain.cli.compile import local_recipe_file
from posttrain.cli.home_option import find_run, home_option, resolve_home, unknown_names_as_usage_errors
from posttrain.cli.invalid_usage import InvalidUsage
from posttrain.cli.remote_recipe import registry_errors
from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.runtime.artifacts.hub_artifacts import HubReference
    from posttrain.runtime.artifacts.packed_artifact import PackedArtifact, Pushed
    from posttrain.runtime.inspection.published_product import PublishedProduct
    from posttrain.runtime.registry.oci_reference import Reference
    from posttrain.spec.plan import Plan


@click.command("push")
@click.argument("subject", metavar="PATH|STAGE")
@click.argument("target", metavar="oci://HOST/NAME:TAG|hf://ORG/NAME")
@home_option
@click.option(
    "--run",
    "name",
    metavar="NAME",
    help="Of a stage: the run whose name starts with NAME; default: the newest.",
)
@click.option(
    "--max-mb",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    metavar="N",
    help="The largest size of a recipe with its data files, in MiB.",
)
def command(subject: str, target: str, home: str | None, name: str | None, max_mb: int) -> None:
    """Publish the recipe at PATH, with the files that it reads, its lock and its plan; or the product of
    STAGE, with the recipe that made it.

    PATH is a folder that holds recipe.yaml, or a file such as ./recipe.yaml. The reference with the digest is
    printed. Equal folders have equal digests, on every machine.
    """
    from posttrain.runtime.artifacts.hub_artifacts import SCHEME

    with registry_errors():
        push = _push_to_hub if target.startswith(SCHEME) else _push_to_registry
        click.echo(push(Subject(subject, home, name, max_mb), target))


@record
class Subject:
    """What is published: the path of a recipe, or a stage of a run."""

    name: str
    home: str | None
    run: str | None
    max_mb: int

    @property
    def is_recipe(self) -> bool:
        """A folder with the name of a stage is a recipe only if it holds one."""
        path = Path(self.name)
        holds_recipe = (path / "recipe.yaml").is_file()
        return holds_recipe or path.suffix in (".yaml", ".yml") or "/" in self.name or path == Path()

    def find_product(self) -> "PublishedProduct":
        from posttrain.runtime.inspection.published_product import find_published

        home = resolve_home(self.home)
        with unknown_names_as_usage_errors():
            return find_published(home, find_run(home, self.run), self.name)


def _push_to_registry(subject: Subject, target: str) -> "Reference":
    from posttrain.runtime.artifacts.packed_artifact import push_artifact
    from posttrain.runtime.artifacts.product_artifact import PUBLISHED_RECORDS, pack_product
    from posttrain.runtime.registry.oci_reference import parse_reference
    from posttrain.runtime.registry.registry_client import RegistryClient

    reference = parse_reference(target)
    if reference.digest is not None:
        raise InvalidUsage("the digest follows from the content: name the target with a tag, or without")
    with RegistryClient(reference) as client:
        if subject.is_recipe:
            packed = _pack_recipe(local_recipe_file(subject.name), subject.max_mb)[0]
            pushed = push_artifact(client, packed, [reference.tag])
            _report(pushed, f"recipe with {len(packed.blobs) - 1} files")
            return pushed.reference
        found = subject.find_product()
        recipe = _recipe_of(found, subject.max_mb)
        origin = None if recipe is None else push_artifact(client, recipe).descriptor
        packed = pack_product(found.product, PUBLISHED_RECORDS, origin)
        pushed = push_artifact(client, packed, [reference.tag])
    _report(pushed, f"product of {subject.name}")
    return pushed.reference


def _push_to_hub(subject: Subject, target: str) -> "HubReference":
    from posttrain.runtime.artifacts.hub_artifacts import parse_hub_reference, push_to_hub, recipe_card
    from posttrain.runtime.artifacts.product_artifact import PUBLISHED_RECORDS, pack_product
    from posttrain.runtime.artifacts.product_card import product_card

    reference = parse_hub_reference(target)
    if subject.is_recipe:
        packed, plan = _pack_recipe(local_recipe_file(subject.name), subject.max_mb)
        return push_to_hub(reference, packed, recipe_card(plan.name, plan.description, packed.digest))
    found = subject.find_product()
    recipe = _recipe_of(found, subject.max_mb)
    origin = None if recipe is None else recipe.digest
    card = product_card(resolve_home(subject.home), found.run, found.product, origin)
    return push_to_hub(reference, pack_product(found.product, PUBLISHED_RECORDS), card)


def _pack_recipe(file: Path, max_mb: int) -> "tuple[PackedArtifact, Plan]":
    from posttrain.cli.recipe_files import collect_files
    from posttrain.runtime.artifacts.recipe_artifact import pack_recipe
    from posttrain.spec.plan import plan_to_json

    found = collect_files(file)
    if found.lock is None:
        click.echo("the recipe has no lock: `recipe lock` pins its revisions", err=True)
    lock = found.lock.name if found.lock else None
    packed = pack_recipe(file.parent, file.name, found.files, lock, plan_to_json(found.plan))
    if packed.size > max_mb << 20:
        raise InvalidUsage(
            f"the recipe and its files have {packed.size >> 20} MiB, more than {max_mb}; publish large data"
            " on the hub and name it there, or raise --max-mb"
        )
    return packed, found.plan


def _recipe_of(found: "PublishedProduct", max_mb: int) -> "PackedArtifact | None":
    """The recipe that made a product, unless it has changed since."""
    from posttrain.cli.recipe_files import produces_key

    if found.recipe is not None and produces_key(found.recipe, found.product.key):
        return _pack_recipe(found.recipe, max_mb)[0]
    click.echo("the recipe of the run has changed or moved: published without it", err=True)
    return None


def _report(pushed: "Pushed", what: str) -> None:
    from posttrain.runtime.report.number_format import format_size

    sent, existing = format_size(pushed.sent_bytes), format_size(pushed.existing_bytes)
    click.echo(f"{what}: {sent} sent, {existing} already there", err=True)
