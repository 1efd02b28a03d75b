"""A product of the store as an artifact: its files, its manifest and its record, one layer each.

The digests of the files come from the manifest of the product, so no file is hashed again. Models have the
media types of ModelPack; the manifest and the record are documents below `.posttrain/` there.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from posttrain.runtime.artifacts import media_types, model_pack
from posttrain.runtime.artifacts.artifact_paths import check_paths
from posttrain.runtime.artifacts.packed_artifact import PackedArtifact, bytes_blob, file_blob, file_layer
from posttrain.runtime.registry.blob_upload import Blob
from posttrain.runtime.registry.oci_manifest import (
    EMPTY_BLOB,
    EMPTY_CONFIG,
    TITLE,
    ArtifactManifest,
    Descriptor,
    describe,
    parse_manifest,
)
from posttrain.runtime.registry.registry_errors import ContentError
from posttrain.runtime.store.launch_record import launch_digest
from posttrain.spec.document_json import MAX_DOCUMENT_BYTES, DocumentError
from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.runtime.store.products import Product
    from posttrain.spec.product_manifest import Manifest

MANIFEST_FILE = ".posttrain/manifest.json"
RECORD_FOLDER = ".posttrain/record/"
# The log can name paths and machines: it goes to a shared cache only.
PUBLISHED_RECORDS = ("step.json", "events.jsonl")
CACHED_RECORDS = (*PUBLISHED_RECORDS, "log")
KEY_ANNOTATION = "dev.posttrain.key"
LAUNCH_ANNOTATION = "dev.posttrain.launch"
_ADVICE = "do not use this artifact; the step can run here"


def pack_product(
    product: "Product", records: tuple[str, ...], subject: Descriptor | None = None
) -> PackedArtifact:
    """Pack a product whose files are in the store."""
    files = {
        name: Blob(digest=f"sha256:{item.sha256}", size=item.size, path=product.files / name)
        for name, item in sorted(product.manifest.files.items())
    }
    documents = {MANIFEST_FILE: bytes_blob((product.folder / "manifest.json").read_bytes())}
    for name in records:
        known = product.manifest.record.get(name)
        path = product.record / name
        if known is not None:
            blob = Blob(digest=f"sha256:{known.sha256}", size=known.size, path=path)
            documents[f"{RECORD_FOLDER}{name}"] = blob
        elif path.is_file():
            documents[f"{RECORD_FOLDER}{name}"] = file_blob(path)
    check_paths([*files, *documents])
    is_model = model_pack.is_model(files)
    config = _config(product, files) if is_model else EMPTY_BLOB
    layers = [
        file_layer(
            blob,
            model_pack.layer_type(name) if is_model else _product_type(name),
            name,
            {media_types.MODEL_PATH: name} if is_model else None,
        )
        for name, blob in {**files, **documents}.items()
    ]
    manifest = ArtifactManifest(
        artifact_type=media_types.MODEL_ARTIFACT if is_model else media_types.PRODUCT_ARTIFACT,
        config=describe(config, media_types.MODEL_CONFIG) if is_model else EMPTY_CONFIG,
        layers=tuple(layers),
        subject=subject,
        annotations={
            KEY_ANNOTATION: product.key,
            LAUNCH_ANNOTATION: launch_digest(product.manifest.launch),
        },
    )
    blobs = (bytes_blob(config), *files.values(), *documents.values())
    return PackedArtifact(manifest=manifest.to_bytes(), blobs=blobs)


def _config(product: "Product", files: Mapping[str, Blob]) -> bytes:
    digests = [blob.digest for blob in files.values()]
    return model_pack.model_config(product.manifest.step, product.files, digests, product.facts)


def _product_type(name: str) -> str:
    if name == MANIFEST_FILE:
        return media_types.PRODUCT_MANIFEST
    return media_types.PRODUCT_RECORD if name.startswith(RECORD_FOLDER) else media_types.PRODUCT_FILE


@record(kw_only=True)
class ProductContents:
    """What the manifest of an artifact with a product says, after its check."""

    files: Mapping[str, Descriptor]
    manifest: Descriptor
    records: Mapping[str, Descriptor]
    subject: Descriptor | None


def parse_product_artifact(data: bytes) -> ProductContents:
    """Check the manifest of an artifact with a product. Raises `ContentError`."""
    found = parse_manifest(data)
    if found.artifact_type not in (media_types.MODEL_ARTIFACT, media_types.PRODUCT_ARTIFACT):
        raise ContentError(f"the artifact is no product: its type is {found.artifact_type:.100}", _ADVICE)
    titles = [layer.annotations.get(TITLE, "") for layer in found.layers]
    check_paths(titles)
    layers = dict(zip(titles, found.layers, strict=True))
    manifest = layers.pop(MANIFEST_FILE, None)
    if manifest is None or manifest.size > MAX_DOCUMENT_BYTES:
        raise ContentError("the artifact has no manifest of a product", _ADVICE)
    records = {
        name.removeprefix(RECORD_FOLDER): layer
        for name, layer in layers.items()
        if name.startswith(RECORD_FOLDER)
    }
    files = {name: layer for name, layer in layers.items() if not name.startswith(RECORD_FOLDER)}
    return ProductContents(files=files, manifest=manifest, records=records, subject=found.subject)


def check_product(contents: ProductContents, data: bytes) -> "Manifest":
    """The manifest of the product, whose files must be the layers. Raises `ContentError`."""
    from posttrain.spec.document_reader import parse_document
    from posttrain.spec.product_manifest import Manifest

    try:
        manifest = parse_document(Manifest, data)
    except DocumentError as error:
        raise ContentError(f"the manifest of the product is not valid: {error}", _ADVICE) from None
    listed = {name: (f"sha256:{item.sha256}", item.size) for name, item in manifest.files.items()}
    if listed != {name: (layer.digest, layer.size) for name, layer in contents.files.items()}:
        raise ContentError("the layers are not the files of the product's manifest", _ADVICE)
    if not set(contents.records) <= set(CACHED_RECORDS):
        raise ContentError("the record of the product has unknown files", _ADVICE)
    for name, item in manifest.record.items():
        layer = contents.records.get(name)
        if layer is None or (layer.digest, layer.size) != (f"sha256:{item.sha256}", item.size):
            raise ContentError(f"the layer of {name} is not that of the product's manifest", _ADVICE)
    return manifest
