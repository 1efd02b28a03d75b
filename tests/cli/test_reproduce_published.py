"""`recipe reproduce oci://...`: signed products, and products that are not what the recipe makes."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from click.testing import Result
from tests.cli.publisher import Publisher, attach, read_envelopes, sign_changed
from tests.ssh_keys import allow, make_key

from posttrain.runtime import installed_stack
from posttrain.runtime.provenance.dsse_envelope import parse_envelope
from posttrain.runtime.registry.oci_manifest import describe, parse_manifest
from posttrain.runtime.registry.oci_reference import parse_reference
from posttrain.runtime.registry.registry_client import RegistryClient
from posttrain.runtime.store.document_files import write_document
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.products import Product
from posttrain.spec.document_json import json_checksum

Change = Callable[[Product], None]


def reproduce(publisher: Publisher, artifact: str, *options: str) -> Result:
    arguments = ["--allowed-signers", str(publisher.allowed), "--home", str(publisher.folder / "again")]
    return publisher.recipe_command("reproduce", artifact, *arguments, *options)


def find_product(publisher: Publisher, step: str) -> Product:
    store = Home(publisher.home).store
    products = [store.read(key) for key in store.all_keys()]
    return next(one for one in products if one.manifest.step == step)


def change_manifest(product: Product, **update: Any) -> None:
    """With the checksum of the changed fields."""
    changed = product.manifest.model_copy(update=update)
    checksum = json_checksum(changed.model_dump())
    write_document(product.folder / "manifest.json", changed.model_copy(update={"checksum": checksum}))


def change_file(product: Product) -> None:
    """As a publisher who exchanges the file of a product does."""
    path = sorted(product.files.iterdir())[0]
    path.write_text("altered\n")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    item = product.manifest.files[path.name]
    changed = item.model_copy(update={"sha256": digest, "size": path.stat().st_size})
    change_manifest(product, files={**product.manifest.files, path.name: changed})


def change_launch(product: Product) -> None:
    launch = product.manifest.launch.model_copy(update={"processes": 2, "strategy": "ddp"})
    change_manifest(product, launch=launch)


def change_hardware(product: Product) -> None:
    path = product.record / "events.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for event in events:
        if event["kind"] == "started":
            event["hardware"]["processor"] = "Another 9000"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


def test_a_published_product_is_reproduced(publisher: Publisher, product: str) -> None:
    publisher.signed(product)
    ended = reproduce(publisher, f"{publisher.repository}:1")
    assert ended.exit_code == 0, ended.output
    assert f"the recipe comes from {publisher.repository}:1@sha256:" in ended.output
    assert ", signed by me@x (SHA256:" in ended.output
    assert 'runs the program ["sh", "-c",' in ended.output
    assert ended.output.splitlines()[-3:] == [
        "count   equal",
        "double  equal",
        "reproduced: equal bytes in 2 steps, with the same launch, stack and hardware",
    ]
    assert len(list((publisher.folder / "again" / "store").iterdir())) == 2


@pytest.mark.parametrize(
    ("step", "changes", "reason"),
    [
        ("double", (change_file,), "files: count; launch, stack and hardware are equal"),
        ("count", (change_file,), "launch, stack and hardware are equal"),
        (
            "double",
            (change_file, change_launch),
            "files: count; launch: processes 2 -> 1, strategy ddp -> single",
        ),
        ("double", (change_file, change_hardware), "files: count; hardware: processor Another 9000 -> "),
    ],
    ids=["product", "earlier step", "launch", "hardware"],
)
def test_a_product_that_the_recipe_does_not_make_is_named(
    publisher: Publisher, step: str, changes: tuple[Change, ...], reason: str
) -> None:
    """A publisher whose key is trusted signs a product that was changed after the run."""
    publisher.run()
    for change in changes:
        change(find_product(publisher, step))
    product = publisher.push("double")
    publisher.signed(product)
    assert publisher.verify(product).exit_code == 0  # the statement holds: only a repetition shows it
    ended = reproduce(publisher, product)
    assert ended.exit_code == 1, ended.output
    assert f"`{step}` is the first step that differs: {reason}" in ended.output.splitlines()[-1]
    other = {"count": "double", "double": "count"}[step]
    assert any(line.split() == [other, "equal"] for line in ended.output.splitlines())


def test_equal_bytes_of_another_launch_are_not_reproduced(publisher: Publisher) -> None:
    publisher.run()
    change_launch(find_product(publisher, "double"))
    product = publisher.push("double")
    publisher.signed(product)
    ended = reproduce(publisher, product)
    assert ended.exit_code == 0, ended.output
    assert ended.output.splitlines()[-1] == (
        "equal bytes in 2 steps, although this differs: launch: processes 2 -> 1, strategy ddp -> single"
    )


WITH_DATA = """\
recipe: 1
name: programs
datasets: {rows: {from: {arithmetic: {digits: 1, count: 20, seed: 1}}}}
stages:
  double:
    script: [sh, -c, "ls $INPUT_NUMBER > $OUT/count"]
    inputs: {number: rows}
"""


@pytest.mark.parametrize("is_altered", [False, True])
def test_a_changed_library_is_named(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch, is_altered: bool
) -> None:
    (publisher.recipe / "recipe.yaml").write_text(WITH_DATA)
    publisher.run()
    if is_altered:
        change_file(find_product(publisher, "datasets.rows"))
    product = publisher.push("double")
    publisher.signed(product)
    version = installed_stack.installed_stack()["duckdb"]
    changed = {**installed_stack.installed_stack(), "duckdb": "99.0"}
    monkeypatch.setattr(installed_stack, "installed_stack", lambda: changed)
    ended = reproduce(publisher, product)
    last, reason = ended.output.splitlines()[-1], f"stack: duckdb {version} -> 99.0"
    assert ended.exit_code == is_altered, ended.output
    if is_altered:
        assert last == f"`datasets.rows` is the first step that differs: {reason}"
    else:
        assert last == f"equal bytes in 2 steps, although this differs: {reason}"


# Not signed as it is: nothing runs


def refused(publisher: Publisher, artifact: str) -> str:
    ended = reproduce(publisher, artifact)
    assert ended.exit_code == 1, ended.output
    assert not (publisher.folder / "again").exists()
    return ended.output


def exchange_file(artifact: str) -> str:
    """An artifact with another file, under the same tag."""
    with RegistryClient(parse_reference(artifact)) as client:
        found = parse_manifest(client.get_manifest(client.reference.version).data)
        client.upload_bytes(b"evil\n")
        layers = [
            describe(b"evil\n", one.media_type, **one.annotations)
            if one.annotations["org.opencontainers.image.title"] == "count"
            else one
            for one in found.layers
        ]
        digest = client.put_manifest(replace(found, layers=tuple(layers)).to_bytes(), tag="1")
    return f"{client.reference.repository}@{digest}"


def test_an_exchanged_file_is_refused(publisher: Publisher, product: str) -> None:
    publisher.signed(product)
    exchanged = exchange_file(product)
    assert "has no signed provenance" in refused(publisher, f"{publisher.repository}:1")
    (data,) = read_envelopes(product)
    attach(exchanged, parse_envelope(data))
    assert "is about another artifact" in refused(publisher, exchanged)


def test_a_statement_with_other_files_is_refused(publisher: Publisher, product: str) -> None:
    publisher.signed(product)
    other = make_key(publisher.folder, "other")
    sign_changed(product, {"subject/1/digest/sha256": "0" * 64}, other)
    allow(publisher.folder, ("other@x", "", other))
    assert "the signed file count is not in the artifact" in refused(publisher, product)


def test_a_signer_who_is_not_trusted_is_refused(publisher: Publisher, product: str) -> None:
    publisher.signed(product)
    allow(publisher.folder, ("other@x", "", make_key(publisher.folder, "other")))
    assert "its signer is not trusted" in refused(publisher, product)


def test_a_recipe_has_no_product_to_reproduce(publisher: Publisher, product: str) -> None:
    del product
    recipe = publisher.push(str(publisher.recipe))
    publisher.signed(recipe)
    assert "the statement is about a recipe, not about a product" in refused(publisher, recipe)
