"""Products as artifacts: models in the format of ModelPack, without a hash of their files."""

import json
from pathlib import Path

import pytest

from posttrain.runtime import atomic_io
from posttrain.runtime.artifacts.product_artifact import (
    PUBLISHED_RECORDS,
    check_product,
    pack_product,
    parse_product_artifact,
)
from posttrain.runtime.registry.registry_errors import ContentError
from posttrain.runtime.store import workdir
from posttrain.runtime.store.products import Product
from posttrain.spec.document_reader import create_document
from posttrain.spec.product_manifest import LaunchRecord, Manifest

FILES = {
    "config.json": b'{"model_type": "qwen2", "dtype": "float32"}',
    "model.safetensors": b"weights",
    "tokenizer.json": b"{}",
    "README.md": b"# card",
}


def product(folder: Path, files: dict[str, bytes]) -> Product:
    for name, data in files.items():
        (folder / "files").mkdir(parents=True, exist_ok=True)
        (folder / "files" / name).write_bytes(data)
    (folder / "record").mkdir()
    for name in ("step.json", "log", "events.jsonl"):
        (folder / "record" / name).write_text(name)
    manifest = create_document(
        Manifest,
        key="0" * 64,
        step="sft",
        kind="train",
        key_parts={},
        key_values={},
        files=atomic_io.file_digests(folder / "files"),
        record=workdir.record_digests(folder / "record"),
        facts={"parameters": 1234},
        cost={},
        launch=LaunchRecord(nodes=1, processes=1, strategy="single", engine=None, micro_batch_size=4),
    )
    atomic_io.write_json(folder / "manifest.json", manifest.model_dump())
    return Product("0" * 64, folder, manifest)


def test_a_model_has_the_types_of_modelpack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = product(tmp_path, FILES)
    hashed: list[str] = []
    real = atomic_io.sha256_file
    monkeypatch.setattr(atomic_io, "sha256_file", lambda path: hashed.append(path.name) or real(path))
    packed = pack_product(made, PUBLISHED_RECORDS)
    assert hashed == ["events.jsonl"]  # the digests of the others are known
    manifest = json.loads(packed.manifest)
    prefix = "application/vnd.cncf.model."
    assert manifest["artifactType"] == f"{prefix}manifest.v1+json"
    assert manifest["config"]["mediaType"] == f"{prefix}config.v1+json"
    assert {
        layer["annotations"]["org.cncf.model.filepath"]: layer["mediaType"].removeprefix(prefix)
        for layer in manifest["layers"]
    } == {
        "config.json": "weight.config.v1.raw",
        "tokenizer.json": "weight.config.v1.raw",
        "model.safetensors": "weight.v1.raw",
        "README.md": "doc.v1.raw",
        ".posttrain/manifest.json": "doc.v1.raw",
        ".posttrain/record/step.json": "doc.v1.raw",
        ".posttrain/record/events.jsonl": "doc.v1.raw",
    }
    config = json.loads(packed.blobs[0].data)
    assert config["config"] == {
        "architecture": "qwen2",
        "format": "safetensors",
        "paramSize": "1234",
        "precision": "float32",
    }
    assert config["modelfs"]["diffIds"] == [f"sha256:{made.digests[name]}" for name in sorted(FILES)]


@pytest.mark.parametrize("files", [FILES, {"rows.parquet": b"rows"}, {}], ids=["model", "rows", "empty"])
def test_a_packed_product_is_accepted(files: dict[str, bytes], tmp_path: Path) -> None:
    made = product(tmp_path, files)
    contents = parse_product_artifact(pack_product(made, PUBLISHED_RECORDS).manifest)
    assert set(contents.files) == set(files)
    assert set(contents.records) == {"step.json", "events.jsonl"}
    assert check_product(contents, (tmp_path / "manifest.json").read_bytes()) == made.manifest


def test_equal_products_have_equal_digests(tmp_path: Path) -> None:
    packed = [pack_product(product(tmp_path / name, FILES), PUBLISHED_RECORDS) for name in ("a", "b")]
    assert packed[0].digest == packed[1].digest


def test_a_changed_step_is_published_under_its_digest(tmp_path: Path) -> None:
    """A registry refuses content that does not match."""
    made = product(tmp_path, FILES)
    before = pack_product(made, PUBLISHED_RECORDS).manifest
    (made.record / "step.json").write_text("changed")
    assert pack_product(made, PUBLISHED_RECORDS).manifest == before


@pytest.mark.parametrize("layer", [{"digest": f"sha256:{'1' * 64}"}, {"size": 3}, None])
def test_another_step_than_that_of_the_manifest_is_refused(
    layer: dict[str, object] | None, tmp_path: Path
) -> None:
    made = product(tmp_path, FILES)
    packed = json.loads(pack_product(made, PUBLISHED_RECORDS).manifest)
    title = "org.opencontainers.image.title"
    (step,) = (one for one in packed["layers"] if one["annotations"][title].endswith("/step.json"))
    packed["layers"].remove(step)
    packed["layers"] += [] if layer is None else [{**step, **layer}]
    contents = parse_product_artifact(json.dumps(packed).encode())
    with pytest.raises(ContentError, match=r"the layer of step\.json is not that of the product's manifest"):
        check_product(contents, (tmp_path / "manifest.json").read_bytes())


def test_a_product_of_an_earlier_release_is_accepted(tmp_path: Path) -> None:
    made = product(tmp_path, FILES)
    fields = {name: value for name, value in made.manifest if name not in ("record", "checksum")}
    older = Product(made.key, made.folder, create_document(Manifest, **fields))
    contents = parse_product_artifact(pack_product(older, PUBLISHED_RECORDS).manifest)
    assert set(contents.records) == {"step.json", "events.jsonl"}
    data = json.dumps(older.manifest.model_dump()).encode()
    assert b'"record"' not in data
    assert check_product(contents, data) == older.manifest
